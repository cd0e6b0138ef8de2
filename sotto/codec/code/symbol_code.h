#pragma once

#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"

namespace sotto {

// What rans, huffman and elias share. Runs of one width and kind form a group with one model. Their symbols are cut
// into chunks, each coded independently, so that several threads can work. If symbols have more than 9 bits, their
// highest 9 bits are coded and the others are stored unchanged. docs/wire describes the layout.
class SymbolCode : public Code {
 public:
  struct Traits {
    bool one_model_a_unit = false;  // runs of different units belong to different groups
    bool wants_counts = true;       // otherwise all counts are 0
  };
  static constexpr unsigned most_bits = 9;  // coded bits of a symbol
  static constexpr std::size_t most_symbols = std::size_t{1} << most_bits;
  static constexpr std::size_t stretch = std::size_t{1} << 17;  // least symbols of a chunk, except the last
  static constexpr std::size_t most_in_chunk = 2 * stretch;

  explicit SymbolCode(Traits traits) : traits_(traits) {}
  bool of_symbols() const final { return true; }
  void reserve(std::size_t symbols) final;
  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) final;
  // A run gets the bytes that it adds to its chunk. A model belongs to all runs that share it.
  bool add_shares(const SymbolRuns<const std::byte>& in, std::span<std::size_t> bytes) final;
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) final;

 protected:
  // Prepares to code symbols with these counts, and writes a model for the decoder. Returns the size of the model, or
  // nothing if it does not fit. Elias has no model.
  virtual std::optional<std::size_t> write_model(std::span<const std::uint32_t> /*counts*/,
                                                 std::span<std::byte> /*out*/) {
    return 0;
  }
  // Reads what write_model() wrote, for symbols below `alphabet`; returns its size in bytes.
  virtual std::size_t read_model(std::span<const std::byte> /*in*/, std::size_t /*alphabet*/) { return 0; }
  // Writes the bytes of a chunk anywhere into `room`, which has two bytes per symbol and 256 more. Returns these bytes,
  // or nothing if `room` is too small. Several threads call encode_chunk() and decode_chunk() at once.
  virtual std::optional<std::span<const std::byte>> encode_chunk(std::span<const std::uint16_t> symbols,
                                                                 std::size_t alphabet,
                                                                 std::span<std::byte> room) const = 0;
  // Fills `symbols`. WireError unless `in` holds exactly this many symbols below `alphabet`.
  virtual void decode_chunk(std::span<const std::byte> in, std::size_t alphabet,
                            std::span<std::uint16_t> symbols) const = 0;

 private:
  // The runs of this kind and width among runs begin .. end; the symbols of run `begin` start at `at`.
  struct Group {
    std::size_t begin = 0, end = 0, at = 0;
    unsigned kind = 0, width = 0;
    bool has(const SymbolRun& run) const { return run.kind == kind && run.width == width; }
    unsigned coded() const { return width < most_bits ? width : most_bits; }  // coded bits of a symbol
    unsigned plain() const { return width - coded(); }
    std::size_t alphabet() const { return std::size_t{1} << coded(); }
  };
  // A chunk starts with symbol `begin` of run `run`, whose symbols start at `at` and their uncoded bits at `plain`.
  struct Chunk {
    std::size_t run = 0, begin = 0, at = 0, plain = 0;
    std::size_t symbols = 0;
    std::size_t coded = 0;  // where its coded bytes start
  };
  struct Slot {  // working memory for one chunk
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
  // Fills chunks_; returns the number of bytes of uncoded bits.
  std::size_t cut_chunks(std::span<const SymbolRun> runs, const Group& group);
  Slot slot(std::size_t number);
  template <class Task, class Join>
  void in_waves(Task task, Join join);
  static void read_chunk(const SymbolRuns<const std::byte>& in, const Group& group, const Chunk& chunk,
                         std::span<std::uint16_t> symbols, std::span<std::byte> low);
  std::optional<std::size_t> count_and_write_model(const SymbolRuns<const std::byte>& in, const Group& group,
                                                   std::span<std::byte> out);
  void add_shares_of(const SymbolRuns<const std::byte>& in, const Group& group, std::span<std::size_t> bytes);
  std::optional<std::size_t> encode_group(const SymbolRuns<const std::byte>& in, const Group& group,
                                          std::span<std::byte> out);
  std::size_t decode_group(std::span<const std::byte> in, const Group& group, const SymbolRuns<std::byte>& out);

  Traits traits_;
  std::vector<Chunk> chunks_;
  std::size_t room_ = 0;  // symbols per slot
  Scratch<std::uint16_t> symbols_;
  Scratch<std::byte> coded_;
  Scratch<std::uint32_t> counts_;
};

}  // namespace sotto
