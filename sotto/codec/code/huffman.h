#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sotto/codec/code/symbol_code.h"
#include "sotto/core/options.h"

namespace sotto {

// The code word lengths of the best prefix code for symbols with these counts, none above `longest` (package-merge;
// Larmore, Hirschberg, JACM 1990); 0 for symbols that do not occur. A single symbol gets a companion, and both have
// length 1. REQUIRES at least one symbol, at most 512 and at most 2^longest of them, and longest <= 15.
void code_lengths(std::span<const std::uint32_t> counts, unsigned longest, std::span<std::uint8_t> lengths);

struct HuffmanOptions {
  std::string model = "static";
  void visit(OptionVisitor& v) {
    v.option("model", model, "a table of lengths for all symbols of a width (static) or of every segment (segment)",
             {"static", "segment"});
  }
};

// Huffman (1952): the best canonical code words of at most 12 bits (Larmore, Hirschberg, 1990).
class Huffman final : public SymbolCode {
 public:
  using Options = HuffmanOptions;
  static constexpr unsigned longest = 12;  // bits of a code word
  explicit Huffman(const HuffmanOptions& options) : SymbolCode({.one_model_a_unit = options.model == "segment"}) {}

 private:
  struct Word {
    std::uint16_t bits = 0;  // the first bit is the lowest
    std::uint8_t length = 0;
  };
  std::optional<std::size_t> write_model(std::span<const std::uint32_t> counts, std::span<std::byte> out) override;
  std::size_t read_model(std::span<const std::byte> in, std::size_t alphabet) override;
  std::optional<std::span<const std::byte>> encode_chunk(std::span<const std::uint16_t> symbols, std::size_t alphabet,
                                                         std::span<std::byte> room) const override;
  void decode_chunk(std::span<const std::byte> in, std::size_t alphabet,
                    std::span<std::uint16_t> symbols) const override;
  // Fills words_ with canonical code words of these lengths; length 0 means none.
  void assign(std::span<const std::uint8_t> lengths);

  std::array<Word, most_symbols> words_{};                          // of the current group
  std::array<std::uint16_t, std::size_t{1} << longest> decoded_{};  // symbol << 4 | length, indexed by the next bits
};

}  // namespace sotto
