#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/index.h"
#include "sotto/codec/scratch.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"

namespace sotto {

// The stages of a codec. A null stage is the identity: elements are the atoms, all are selected, bodies stay uncoded.
struct Stages {
  std::unique_ptr<Transform> transform;
  Selection select;
  Selection within;                    // second selection, among the floats of the rows that `select` chose
  std::unique_ptr<Quantise> quantise;  // never null
  std::unique_ptr<Code> code;
};

// The parts of a chain that are the same for all its messages.
struct ChainParts {
  // `made` are the stages that `specs` names. The threads of `pool` share the work.
  ChainParts(StageSpecs specs, Stages made, std::shared_ptr<ThreadPool> pool);

  // Whether elements are quantised in the bucket itself.
  bool in_place() const { return !stages.transform && !stages.select && !pools; }
  bool selection_is_shared() const { return stages.select.traits().shared; }
  const LinearForm* linear() const;  // null: the values cannot be summed
  std::size_t side_bytes(std::size_t values) const { return stages.quantise->side_bytes(values); }
  // The bytes of a unit's symbols; an upper bound if units are wholes (WholeUnits). Otherwise packed_bytes(a + b) =
  // packed_bytes(a) + packed_bytes(b) if a is a multiple of packing.group.
  std::size_t packed_bytes(std::size_t values) const {
    return whole != nullptr ? whole->max_packed_bytes(values) : packing.bytes_of(values);
  }
  std::size_t agreed_count() const { return agreed != nullptr ? agreed->agreed_count() : 0; }  // numbers per unit
  std::size_t agreed_count(const Layout& layout) const {
    const std::size_t segments = layout.segments().size();
    return agreed_count() * (pools ? std::min<std::size_t>(segments, 1) : segments);
  }

  Stages stages;
  CodecTraits traits;
  std::shared_ptr<ThreadPool> pool;
  Packing packing;
  const WholeUnits* whole;  // null: units can be cut
  AgreedNumbers* agreed;    // null: ranks agree on no numbers
  MergedUnits* merged;      // null: messages are decoded one by one
  bool pools;               // all pieces of a message are one unit
  bool one_block;           // a unit has one block or is a whole, so it is quantised in one call
  std::size_t slice;        // otherwise: values per call of the quantiser; they are whole blocks and fill whole bytes
  std::size_t stretch;      // the smallest size of a stretch, in values
};

// The message that is being made or read: its pieces, atoms and units, and buffers that are reused from message to
// message. docs/wire/README.md explains these words and the bytes. The functions of this class, Chain and ChainReader
// have a file for each stage: chain.cc (plans, units, stretches), chain_select.cc, chain_quantise.cc and chain_code.cc
// (codes, and the bytes of each segment). chain_encode.cc and chain_decode.cc join the stages. chain_sums.cc has all
// sums over ranks: linear forms, means of holders, merged messages.
class ChainMessage {
 public:
  explicit ChainMessage(std::shared_ptr<ChainParts> parts);

  Contract contract(const Layout& layout);
  std::size_t max_bytes(const Layout& layout, Range part) { return sizeof(Header) + plan(layout, part).max_body; }
  std::size_t linear_count(const Layout& layout);

 protected:
  // Header flags.
  static constexpr std::uint8_t flag_coded = 2;  // the body went through the code stage
  // Positions of the lower and the upper bit of an IndexCode.
  struct CodeFlags {
    unsigned low, high;
    std::uint8_t of(IndexCode code) const {
      const auto bits = static_cast<unsigned>(code);
      return static_cast<std::uint8_t>((bits & 1U) << low | (bits >> 1U) << high);
    }
    IndexCode in(unsigned flags) const {
      return static_cast<IndexCode>((flags >> low & 1U) | (flags >> high & 1U) << 1U);
    }
    unsigned all() const { return 1U << low | 1U << high; }
  };
  static constexpr CodeFlags index_flags{0, 3};
  static constexpr CodeFlags within_flags{2, 4};                      // of the second selection
  static constexpr std::size_t length_bytes = sizeof(std::uint32_t);  // the length before indices or coded bodies

  // A piece of the current message, and its atoms.
  struct Slot {
    Piece piece;
    Atoms atoms;
    std::size_t first = 0;        // number of its first atom in the message
    std::size_t first_block = 0;  // number of its first block (SelectTraits::block) in the message
    std::size_t blocks = 0;
    std::size_t taken = 0;        // number of its selected blocks
    std::size_t taken_at = 0;     // where these begin among the selected blocks of all pieces
    std::size_t row = 0;          // where its rows begin, among the rows of all pieces
    std::size_t selected = 0;     // number of its selected atoms
    std::size_t selected_at = 0;  // where these begin among the selected atoms of all pieces
    std::size_t value = 0;        // where their floats begin among the selected floats of all pieces
    std::size_t values() const { return selected * atoms.width; }
  };
  // Floats that are quantised together: the selected floats of a piece, or one factor of one of its rows.
  struct Unit {
    std::size_t slot = 0;
    std::size_t value = 0;  // where its floats begin, among the floats of all units
    std::size_t count = 0;  // number of its floats
    // The floats that the second selection keeps: where they begin, and their number. Without a second selection these
    // are `value` and `count`.
    std::size_t kept_at = 0, kept = 0;
    std::size_t packed = 0;  // bytes of its symbols
  };
  struct Plan {
    std::size_t atoms = 0;        // of all pieces
    std::size_t rows = 0;         // floats of all atoms
    std::size_t blocks = 0;       // of all pieces
    std::size_t most_blocks = 0;  // that can be selected
    std::size_t most = 0;         // atoms that can be selected
    std::size_t values = 0;       // floats that can be selected
    std::size_t units = 0;        // the most units
    std::size_t largest = 0;      // floats of the largest unit
    RunLimits runs;               // of the symbols of all units
    std::size_t max_body = 0;     // bytes of a body, before the code stage
  };
  // The start of a stretch, which is a part of the floats of all units that one thread quantises or decodes. The
  // stretch starts at float `begin` of unit number `unit`. `side` and `packed` are where the bytes of that unit begin.
  struct StretchStart {
    std::size_t unit = 0, begin = 0, side = 0, packed = 0;
  };
  // The part of one unit that lies in a stretch: its values and the positions of their bytes.
  struct UnitPart {
    const Unit* unit = nullptr;
    Range values, side, packed;
  };

  [[noreturn]] static void throw_not_finite(const std::string& segment, const Key& key);
  Plan plan(const Layout& layout, Range part);
  void reserve_message(const Plan& plan);
  void reserve_selection(const Plan& plan);
  void cut_units();
  void list_runs(std::span<const std::byte> side);
  void cut_stretches(std::size_t slice);
  template <class Visit>
  void visit_unit_parts(std::size_t stretch, Visit visit) const;
  template <class Visit>
  void visit_all_unit_parts(Visit visit) const;
  std::size_t values_in_slots() const;  // number of floats of all selected atoms, or of all rows

  Group group_of(const Layout& layout, const Slot& slot, std::span<const float> energies) const;
  std::span<const std::uint32_t> select(Streams streams, const Plan& plan);
  std::span<std::uint32_t> room_for_blocks(const Plan& plan);
  void spread_blocks(std::span<const std::uint32_t> taken, const Plan& plan);
  void select_known(const Layout& layout, const Streams& streams, const Plan& plan);
  std::span<const std::uint32_t> atoms_of(const Slot& slot);
  void decode_units(const Quantised& in, float scale);
  void add_rows(const Slot& slot, float scale, Bucket& out);
  void clear_selected(Bucket& out);
  static double bound_of_sums(const Slot& slot, std::span<const float> rows);
  const Slot* too_large();

  std::shared_ptr<ChainParts> parts_;
  Stages& stages_;
  ThreadPool& pool_;

  std::vector<Piece> pieces_;
  std::vector<Slot> slots_;
  std::vector<Unit> units_;
  std::vector<StretchStart> cuts_;  // the starts of all stretches, and the end of the last one
  std::vector<SymbolRun> runs_;
  std::vector<GroupSize> sizes_;
  std::vector<std::size_t> counts_, limits_;
  std::vector<Group> groups_;
  Scratch<float> scales_;
  // Numbers of the selected blocks and atoms, and of the floats that the second selection keeps; then the floats.
  Scratch<std::uint32_t> taken_, indices_, within_;
  Scratch<float> values_, kept_values_;
  Scratch<std::uint32_t> atoms_;
  Scratch<std::byte> coded_;
};

// Calls visit(part) for each unit's part of the stretch, in order.
template <class Visit>
void ChainMessage::visit_unit_parts(std::size_t stretch, Visit visit) const {
  const ChainParts& parts = *parts_;
  const StretchStart& end = cuts_[stretch + 1];
  for (StretchStart at = cuts_[stretch]; at.unit < end.unit || (at.unit == end.unit && at.begin < end.begin);
       ++at.unit, at.begin = 0) {
    const Unit& unit = units_[at.unit];
    const Range values{at.begin, at.unit == end.unit ? end.begin : unit.kept};
    const Range side = parts.one_block ? Range{0, parts.side_bytes(unit.kept)}
                                       : Range{parts.side_bytes(values.begin),
                                               parts.side_bytes(values.begin) + parts.side_bytes(values.size())};
    const std::size_t packed = at.packed + parts.packed_bytes(values.begin);
    if (values.size() > 0) {
      visit(UnitPart{&unit,
                     values,
                     {at.side + side.begin, at.side + side.end},
                     {packed, packed + parts.packed_bytes(values.size())}});
    }
    at.side += parts.side_bytes(unit.kept);
    at.packed += unit.packed;
  }
}

// Calls visit(part) for all parts of units: on all threads, or one after the other if units are wholes.
template <class Visit>
void ChainMessage::visit_all_unit_parts(Visit visit) const {
  if (parts_->whole == nullptr) {
    pool_.run(cuts_.size() - 1, [&](std::size_t stretch) { visit_unit_parts(stretch, visit); });
    return;
  }
  std::size_t side = 0;
  std::size_t packed = 0;
  for (const Unit& unit : units_) {
    const std::size_t side_end = side + parts_->side_bytes(unit.kept);
    if (unit.kept > 0) visit(UnitPart{&unit, {0, unit.kept}, {side, side_end}, {packed, packed + unit.packed}});
    side = side_end;
    packed += unit.packed;
  }
}

}  // namespace sotto
