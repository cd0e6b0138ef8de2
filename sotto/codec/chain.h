#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/index.h"
#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"

namespace sotto {

// The stages of a sentence. Null: the identity (elements are the atoms; all are selected; bodies go as they are).
struct Stages {
  std::unique_ptr<Transform> transform;
  std::unique_ptr<Select> select;
  std::unique_ptr<Select> within;      // a second selection: of the floats in the rows that the first one selected
  std::unique_ptr<Quantise> quantise;  // never null
  std::unique_ptr<Code> code;
};

// The codec that a sentence of stages is: transform | select | select | quantise | code. docs/wire.md describes its
// messages.
class Chain final : public Codec {
 public:
  explicit Chain(Stages stages);

  const std::string& sentence() const override { return sentence_; }
  Contract contract(const Layout& layout) const override;
  std::size_t max_bytes(const Layout& layout, Range part) const override;
  void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
              std::span<Message> out) override;
  void check(const MessageView& message, const Layout& layout, Range part) const override;
  void add_decoded(const MessageView& message, Range part, float scale, Bucket& out) const override;

  std::optional<DType> linear_type() const override;
  std::size_t linear_count(const Layout& layout) const override;
  void to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) override;
  void from_linear(std::span<const std::byte> in, float scale, Bucket& out) const override;
  void visit_state(StateVisitor& visitor) override;

 private:
  // Header flags.
  static constexpr std::uint8_t flag_bitmap = 1;                      // indices are a bitmap
  static constexpr std::uint8_t flag_coded = 2;                       // the body went through the code stage
  static constexpr std::uint8_t flag_bitmap_within = 4;               // indices of the second selection are a bitmap
  static constexpr std::size_t length_bytes = sizeof(std::uint32_t);  // in front of indices and of coded bodies

  // A piece of the message at hand, and its atoms.
  struct Slot {
    Piece piece;
    Atoms atoms;
    std::size_t first = 0;     // number of its first atom in the message
    std::size_t row = 0;       // where its rows begin, among the rows of all pieces
    std::size_t selected = 0;  // atoms that go
    std::size_t sent = 0;      // where they begin, among those of all pieces
    std::size_t value = 0;     // where their floats begin, among those of all pieces
    std::size_t values() const { return selected * atoms.width; }
  };
  // Floats that are quantised together: what goes of a piece, or one factor of one of its rows.
  struct Unit {
    std::size_t slot = 0;
    std::size_t value = 0;  // where its floats begin, among those of all units
    std::size_t count = 0;  // of its floats
    std::size_t kept = 0;   // where those that the second selection lets through begin, and how many they are:
    std::size_t sent = 0;   // without one, the same as the two above
  };
  struct Plan {
    std::size_t atoms = 0;     // of all pieces
    std::size_t rows = 0;      // floats of all atoms
    std::size_t most = 0;      // atoms that can be selected
    std::size_t values = 0;    // floats that can be selected
    std::size_t units = 0;     // that there can be
    std::size_t largest = 0;   // floats of the largest unit
    std::size_t max_body = 0;  // bytes of a body, before the code stage
  };
  struct Sections {  // of a body
    std::span<const std::byte> side, packed;
  };

  [[noreturn]] static void throw_not_finite(const std::string& segment, const Key& key);
  const LinearForm* linear() const;
  bool in_place() const { return !stages_.transform && !stages_.select; }  // elements are quantised where they stand
  Plan plan(const Layout& layout, Range part) const;
  void reserve(const Plan& plan);
  void reserve_decoding(const Plan& plan) const;
  void cut_units() const;
  std::size_t values_in_slots() const;  // floats of all that was selected, or of all rows

  void encode_part(const Bucket& bucket, const Key& key, Range part, std::uint16_t number, Message& out);
  void apply_transform(const Bucket& bucket, const Streams& streams, const Plan& plan);
  std::span<const std::uint32_t> apply_select(const Bucket& bucket, const Streams& streams, const Plan& plan);
  void gather_rows(const Bucket& bucket);
  std::span<const std::uint32_t> apply_select_within(const Bucket& bucket, const Streams& streams);
  Values values_of(const Unit& unit, const Bucket& bucket, const Streams& streams);
  bool quantise(const Values& values, std::span<std::byte> side, std::span<std::byte> packed, std::uint32_t& crc);
  std::size_t compress(std::span<std::byte> body, std::size_t size);

  std::span<const std::byte> decompress(std::span<const std::byte> body, const Plan& plan) const;
  Sections open(const MessageView& message, const Layout& layout, Range part) const;
  Sections read_body(std::span<const std::byte> body, std::uint8_t flags, const Plan& plan) const;
  void read_selected(std::span<const std::byte> index, IndexCode code, const Plan& plan) const;
  void read_selected_within(std::span<const std::byte> index, IndexCode code) const;
  template <class Visit>
  void for_units(const Sections& sections, Visit visit) const;
  void decode_units(const Sections& sections, float scale) const;
  void check_rows() const;
  void add_rows(const Slot& slot, float scale, Bucket& out) const;

  Stages stages_;
  std::string sentence_;
  std::size_t slice_;  // values that the quantiser is given at a time: of whole blocks and whole bytes

  // Of the message at hand; kept so that a step after the first allocates nothing.
  mutable std::vector<Piece> pieces_;
  mutable std::vector<Slot> slots_;
  mutable std::vector<Unit> units_;
  mutable std::vector<std::size_t> counts_, limits_;
  std::vector<Group> groups_;
  Scratch<float> energies_, scales_, rows_;
  // Of what was selected: the numbers of atoms and, within, of floats; floats, and what random number belongs to each.
  mutable Scratch<std::uint32_t> indices_, within_;
  mutable Scratch<float> values_, kept_values_;
  Scratch<std::uint32_t> numbers_, kept_numbers_;
  mutable Scratch<std::uint32_t> atoms_;
  mutable Scratch<std::byte> coded_;
};

}  // namespace sotto
