#pragma once

#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"

namespace sotto {

// What rans, huffman and elias have in common. Runs of one width and kind are a group with one model, and their symbols
// are cut into chunks, each of which is coded as if it were alone: so several threads can. Of symbols of more than 9
// bits the highest 9 are coded and the others go as they are. docs/wire says where all of that stands.
class SymbolCode : public Code {
 public:
  static constexpr unsigned most_bits = 9;  // of a symbol that is coded
  static constexpr std::size_t most_symbols = std::size_t{1} << most_bits;
  static constexpr std::size_t stretch = std::size_t{1} << 17;  // symbols of a chunk, at least, but for the last one
  static constexpr std::size_t most_in_chunk = 2 * stretch;

  bool of_symbols() const final { return true; }
  void reserve(std::size_t symbols) final;
  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) final;
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) final;

 protected:
  // Whether runs of different units are different groups.
  virtual bool one_model_a_unit() const { return false; }
  virtual bool wants_counts() const { return true; }  // otherwise they are all 0
  // Prepares to code symbols that occur so often, and writes what a decoder has to know. Nothing when it does not fit.
  virtual std::optional<std::size_t> write_model(std::span<const std::uint32_t> /*counts*/,
                                                 std::span<std::byte> /*out*/) {
    return 0;
  }
  // The reverse, for symbols below `alphabet`; returns how many bytes it is.
  virtual std::size_t read_model(std::span<const std::byte> /*in*/, std::size_t /*alphabet*/) { return 0; }
  // The bytes of a chunk, anywhere in `room`, which has two bytes a symbol and 256 more; nothing when they are not
  // enough. Several threads call this and the next at once.
  virtual std::optional<std::span<const std::byte>> encode_chunk(std::span<const std::uint16_t> symbols,
                                                                 std::size_t alphabet,
                                                                 std::span<std::byte> room) const = 0;
  // WireError unless these are the bytes of so many symbols below `alphabet`.
  virtual void decode_chunk(std::span<const std::byte> in, std::size_t alphabet,
                            std::span<std::uint16_t> symbols) const = 0;

 private:
  // The runs begin .. end that have this kind and width; the symbols of the first of these begin at `at`.
  struct Group {
    std::size_t begin = 0, end = 0, at = 0;
    unsigned kind = 0, width = 0;
    bool has(const SymbolRun& run) const { return run.kind == kind && run.width == width; }
    unsigned coded() const { return width < most_bits ? width : most_bits; }  // bits
    unsigned plain() const { return width - coded(); }
    std::size_t alphabet() const { return std::size_t{1} << coded(); }
  };
  // Begins with symbol `begin` of a run, whose symbols begin at `at` and what of them goes as it is at `plain`.
  struct Chunk {
    std::size_t run = 0, begin = 0, at = 0, plain = 0;
    std::size_t symbols = 0;
    std::size_t coded = 0;  // where its bytes begin
  };
  struct Slot {  // for a chunk at hand
    std::span<std::uint16_t> symbols;
    std::span<std::byte> coded;
  };

  template <class Visit>
  static void visit_groups_of(std::span<const SymbolRun> runs, std::size_t begin, std::size_t end, std::size_t at,
                              Visit visit);
  template <class Visit>
  void visit_groups(std::span<const SymbolRun> runs, Visit visit) const;
  template <class Visit>
  static void visit_pieces(std::span<const SymbolRun> runs, const Group& group, const Chunk& chunk, Visit visit);
  // Fills chunks_; returns the bytes of all that goes as it is.
  std::size_t cut_chunks(std::span<const SymbolRun> runs, const Group& group);
  Slot slot(std::size_t number);
  template <class Task, class Join>
  void in_waves(Task task, Join join);
  std::optional<std::size_t> encode_group(const SymbolRuns<const std::byte>& in, const Group& group,
                                          std::span<std::byte> out);
  std::size_t decode_group(std::span<const std::byte> in, const Group& group, const SymbolRuns<std::byte>& out);

  std::vector<Chunk> chunks_;
  std::size_t room_ = 0;  // symbols of a slot
  Scratch<std::uint16_t> symbols_;
  Scratch<std::byte> coded_;
  Scratch<std::uint32_t> counts_;
};

}  // namespace sotto
