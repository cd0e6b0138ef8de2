#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/index.h"
#include "sotto/codec/scratch.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"

namespace sotto {

// The stages of a sentence. Null: the identity (elements are the atoms; all are selected; bodies go as they are).
struct Stages {
  std::unique_ptr<Transform> transform;
  Selection select;
  Selection within;                    // a second selection: of the floats in the rows that the first one selected
  std::unique_ptr<Quantise> quantise;  // never null
  std::unique_ptr<Code> code;
};

// The codec that a sentence of stages is: transform | select | select | quantise | code. docs/wire.md describes its
// messages.
class Chain final : public Codec {
 public:
  // Its work is shared out to these threads.
  // `made` is what `stages` name.
  Chain(StageSpecs stages, Stages made, std::shared_ptr<ThreadPool> pool = std::make_shared<ThreadPool>(1));

  const StageSpecs& stages() const override { return specs_; }
  const std::string& sentence() const override { return sentence_; }
  Contract contract(const Layout& layout) const override;
  std::size_t max_bytes(const Layout& layout, Range part) const override;
  std::size_t agreed_count(const Layout& layout) const override;
  void propose(const Bucket& bucket, std::span<float> numbers) override;
  void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
              std::span<Message> out) override;
  void check(const MessageView& message, const Layout& layout, Range part) const override;
  void add_decoded(const MessageView& message, Range part, float scale, Bucket& out) const override;
  bool lists_atoms() const override;
  void add_mean_of_holders(std::span<const MessageView> messages, Range part, Bucket& out) const override;
  void clear_chosen(const MessageView& message, Range part, Bucket& out) const override;

  std::optional<DType> linear_type() const override;
  std::size_t linear_count(const Layout& layout) const override;
  void to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) override;
  void from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out) const override;
  bool additive() const override { return !stages_.transform || stages_.transform->additive(); }
  void clear_chosen(const Key& key, Bucket& out) const override;
  void visit_state(StateVisitor& visitor) override;

 private:
  // Header flags.
  static constexpr std::uint8_t flag_coded = 2;  // the body went through the code stage
  // Where the lower and the upper bit of an IndexCode stand.
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
  static constexpr std::size_t length_bytes = sizeof(std::uint32_t);  // in front of indices and of coded bodies

  // A piece of the message at hand, and its atoms.
  struct Slot {
    Piece piece;
    Atoms atoms;
    std::size_t first = 0;        // number of its first atom in the message
    std::size_t first_block = 0;  // and of its first block (Select::block), of which it has so many
    std::size_t blocks = 0;
    std::size_t taken = 0;     // blocks that go
    std::size_t taken_at = 0;  // where they begin, among those of all pieces
    std::size_t row = 0;       // where its rows begin, among the rows of all pieces
    std::size_t selected = 0;  // atoms that go
    std::size_t sent = 0;      // where they begin, among those of all pieces
    std::size_t value = 0;     // where their floats begin, among those of all pieces
    std::size_t values() const { return selected * atoms.width; }
  };
  // Floats that are quantised together: what goes of a piece, or one factor of one of its rows.
  struct Unit {
    std::size_t slot = 0;
    std::size_t value = 0;   // where its floats begin, among those of all units
    std::size_t count = 0;   // of its floats
    std::size_t kept = 0;    // where those that the second selection lets through begin, and how many they are:
    std::size_t sent = 0;    // without one, the same as the two above
    std::size_t packed = 0;  // bytes of its symbols
  };
  struct Plan {
    std::size_t atoms = 0;        // of all pieces
    std::size_t rows = 0;         // floats of all atoms
    std::size_t blocks = 0;       // of all pieces
    std::size_t most_blocks = 0;  // that can be selected
    std::size_t most = 0;         // atoms that can be selected
    std::size_t values = 0;       // floats that can be selected
    std::size_t units = 0;        // that there can be
    std::size_t largest = 0;      // floats of the largest unit
    RunLimits runs;               // of the symbols of all units
    std::size_t max_body = 0;     // bytes of a body, before the code stage
  };
  struct Sections {  // of a body
    std::span<const std::byte> side, packed;
  };
  // Where a stretch of the floats of all units begins, which one thread quantises or decodes: with number `begin` of a
  // unit. `side` and `packed` are where the sections of that unit begin.
  struct Cut {
    std::size_t unit = 0, begin = 0, side = 0, packed = 0;
  };
  // What a stretch has of one unit: which of its values, and where their sections are.
  struct Share {
    const Unit* unit = nullptr;
    Range values, side, packed;
  };

  [[noreturn]] static void throw_not_finite(const std::string& segment, const Key& key);
  const LinearForm* linear() const;
  bool in_place() const { return !stages_.transform && !stages_.select; }  // elements are quantised where they stand
  bool selection_is_known() const { return stages_.select && stages_.select->known(); }
  Plan plan(const Layout& layout, Range part) const;
  void reserve(const Plan& plan);
  void reserve_decoding(const Plan& plan) const;
  void reserve_selection(const Plan& plan) const;
  void cut_units() const;
  void list_runs(std::span<const std::byte> side) const;
  void cut_stretches(std::size_t slice) const;
  template <class Visit>
  void visit_shares(std::size_t stretch, Visit visit) const;
  template <class Visit>
  void visit_all_shares(Visit visit) const;
  std::size_t values_in_slots() const;  // floats of all that was selected, or of all rows

  void encode_part(const Bucket& bucket, const Key& key, Range part, std::uint16_t number, Message& out);
  void apply_transform(const Bucket& bucket, const Streams& streams, const Plan& plan);
  std::span<const std::uint32_t> apply_select(const Bucket& bucket, const Streams& streams, const Plan& plan);
  Group group_of(const Layout& layout, const Slot& slot, std::span<const float> energies) const;
  std::span<const std::uint32_t> select(Streams streams, const Plan& plan) const;
  std::span<std::uint32_t> room_for_blocks(const Plan& plan) const;
  void spread_blocks(std::span<const std::uint32_t> taken, const Plan& plan) const;
  void require_finite(const Select& select, const Layout& layout, const Key& key) const;
  void write_factors(const Slot& slot, const Bucket& bucket, const Streams& streams, std::span<float> rows);
  void gather_rows(const Bucket& bucket, const Streams& streams);
  std::span<const std::uint32_t> apply_select_within(const Bucket& bucket, const Streams& streams);
  static std::optional<std::uint64_t> place_of(const Slot& slot, const Streams& streams);
  Values values_of(const Unit& unit, const Bucket& bucket, const Streams& streams);
  SummedBytes quantise_units(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                             std::span<std::byte> packed);
  SummedBytes quantise_one_by_one(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                                  std::span<std::byte> packed);
  void require_readable(const Sections& sections, const Bucket& bucket, const Key& key);
  void throw_not_finite(const Unit& unit, const Bucket& bucket, const Key& key) const;
  bool quantise(const Values& values, std::span<std::byte> side, std::span<std::byte> packed, std::uint32_t& crc);
  std::size_t compress(std::span<std::byte> body, std::size_t head, Range packed);

  std::span<const std::byte> decompress(std::span<const std::byte> body, const Plan& plan) const;
  std::span<const std::byte> decompress_symbols(std::span<const std::byte> coded, std::span<const std::byte> side,
                                                std::size_t packed) const;
  Sections open(const MessageView& message, const Layout& layout, Range part) const;
  Sections read_body(std::span<const std::byte> body, const Header& header, const Layout& layout,
                     const Plan& plan) const;
  std::size_t read_sizes(std::span<const std::byte> side) const;
  void read_selected(std::span<const std::byte> index, IndexCode code, const Plan& plan) const;
  void read_selected_within(std::span<const std::byte> index, IndexCode code) const;
  void select_known(const Layout& layout, const Streams& streams, const Plan& plan) const;
  std::span<const float> linear_values(const Bucket& bucket, const Key& key);
  void decode_units(const Sections& sections, float scale) const;
  static double bound_of_sums(const Slot& slot, std::span<const float> rows);
  const Slot* too_large() const;
  std::span<const std::uint32_t> atoms_of(const Slot& slot) const;
  void add_rows(const Slot& slot, float scale, Bucket& out) const;
  void clear_selected(Bucket& out) const;
  void add_to_sums(float share) const;
  void take_means(const Layout& layout, std::size_t messages) const;

  Stages stages_;
  StageSpecs specs_;
  std::string sentence_;
  std::shared_ptr<ThreadPool> pool_;
  bool whole_;         // what the quantiser's whole() says
  bool one_block_;     // all values of a unit share their side information, or are a whole: they are quantised at once
  std::size_t slice_;  // otherwise values that the quantiser is given at a time: of whole blocks and whole bytes
  std::size_t stretch_;  // the fewest values of a stretch

  std::span<const float> agreed_;  // of the bucket at hand

  // Of the message at hand; kept so that a step after the first allocates nothing.
  mutable std::vector<Piece> pieces_;
  mutable std::vector<Slot> slots_;
  mutable std::vector<Unit> units_;
  mutable std::vector<Cut> cuts_;  // of all stretches, and where the last one ends
  mutable std::vector<SymbolRun> runs_;
  std::vector<std::uint32_t> crcs_;  // of the symbols of each stretch
  mutable std::vector<GroupSize> sizes_;
  mutable std::vector<std::size_t> counts_, limits_;
  mutable std::vector<Group> groups_;
  mutable Scratch<float> scales_;
  Scratch<float> energies_, rows_;
  // Of what was selected: the numbers of blocks, atoms and, within, of floats; floats, and what random number belongs
  // to each.
  mutable Scratch<std::uint32_t> taken_, indices_, within_;
  mutable Scratch<float> values_, kept_values_;
  Scratch<std::uint32_t> numbers_, kept_numbers_;
  mutable Scratch<std::uint32_t> atoms_;
  mutable Scratch<float> sums_;             // of the rows of all atoms, over messages
  mutable Scratch<std::uint32_t> holders_;  // of each atom
  mutable Scratch<std::byte> coded_;
};

// visit(share) for what a stretch has of one unit after the other.
template <class Visit>
void Chain::visit_shares(std::size_t stretch, Visit visit) const {
  const Quantise& quantise = *stages_.quantise;
  const Cut& end = cuts_[stretch + 1];
  for (Cut at = cuts_[stretch]; at.unit < end.unit || (at.unit == end.unit && at.begin < end.begin);
       ++at.unit, at.begin = 0) {
    const Unit& unit = units_[at.unit];
    const Range values{at.begin, at.unit == end.unit ? end.begin : unit.sent};
    const Range side = one_block_ ? Range{0, quantise.side_bytes(unit.sent)}
                                  : Range{quantise.side_bytes(values.begin),
                                          quantise.side_bytes(values.begin) + quantise.side_bytes(values.size())};
    const std::size_t packed = at.packed + quantise.packed_bytes(values.begin);
    if (values.size() > 0) {
      visit(Share{&unit,
                  values,
                  {at.side + side.begin, at.side + side.end},
                  {packed, packed + quantise.packed_bytes(values.size())}});
    }
    at.side += quantise.side_bytes(unit.sent);
    at.packed += unit.packed;
  }
}

// visit(share) for all that there is: on all threads, or where units are wholes one after the other.
template <class Visit>
void Chain::visit_all_shares(Visit visit) const {
  if (!whole_) {
    pool_->run(cuts_.size() - 1, [&](std::size_t stretch) { visit_shares(stretch, visit); });
    return;
  }
  std::size_t side = 0;
  std::size_t packed = 0;
  for (const Unit& unit : units_) {
    const std::size_t side_end = side + stages_.quantise->side_bytes(unit.sent);
    if (unit.sent > 0) visit(Share{&unit, {0, unit.sent}, {side, side_end}, {packed, packed + unit.packed}});
    side = side_end;
    packed += unit.packed;
  }
}

}  // namespace sotto
