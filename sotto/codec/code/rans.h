#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "sotto/codec/code/symbol_code.h"
#include "sotto/core/options.h"
#include "sotto/kernels/rans.h"

namespace sotto {

// Frequencies of symbols for rANS: whole numbers with the sum 2^precision (docs/wire).

// The precision of a table for symbols with these counts: 10 .. 14.
unsigned precision_for(std::span<const std::uint32_t> counts);

// Gives each symbol that occurs a frequency of at least 1. REQUIRES at least one symbol, and at most 2^precision of
// them.
void share_frequencies(std::span<const std::uint32_t> counts, unsigned precision, std::span<std::uint32_t> frequencies);

// Writes a byte for the precision and an Elias gamma code of each frequency plus 1, until the sum is reached. Returns
// nothing if it does not fit.
std::optional<std::size_t> write_frequencies(std::span<const std::uint32_t> frequencies, unsigned precision,
                                             std::span<std::byte> out);
struct FrequencyTable {
  unsigned precision = 0;
  std::size_t bytes = 0;
};
// Fills `frequencies`; WireError if their sum is wrong.
FrequencyTable read_frequencies(std::span<const std::byte> in, std::span<std::uint32_t> frequencies);

struct RansOptions {
  std::string model = "static";
  void visit(OptionVisitor& v) {
    v.option("model", model,
             "a table of frequencies for all symbols of a width (static) or of every segment (segment), or frequencies "
             "of the symbols before, and no table (adaptive)",
             {"static", "segment", "adaptive"});
  }
};

// Range asymmetric numeral systems (Duda, 2013), interleaved (Giesen, 2014): each symbol costs as many bits as its
// frequency implies, including fractions of bits.
class Rans final : public SymbolCode {
 public:
  using Options = RansOptions;
  explicit Rans(const RansOptions& options)
      : SymbolCode({.one_model_a_unit = options.model == "segment", .wants_counts = options.model != "adaptive"}),
        adaptive_(options.model == "adaptive") {}

 private:
  std::optional<std::size_t> write_model(std::span<const std::uint32_t> counts, std::span<std::byte> out) override;
  std::size_t read_model(std::span<const std::byte> in, std::size_t alphabet) override;
  std::optional<std::span<const std::byte>> encode_chunk(std::span<const std::uint16_t> symbols, std::size_t alphabet,
                                                         std::span<std::byte> room) const override;
  std::span<const std::byte> encode_with(std::size_t lanes, std::span<const std::uint16_t> symbols,
                                         std::size_t alphabet, std::span<std::byte> room) const;
  void decode_chunk(std::span<const std::byte> in, std::size_t alphabet,
                    std::span<std::uint16_t> symbols) const override;

  bool adaptive_;
  // The tables of the current group.
  unsigned precision_ = 0;
  std::array<std::uint32_t, most_symbols> ranges_{};
  std::array<std::uint32_t, most_symbols> frequencies_{};
  std::array<std::uint32_t, std::size_t{1} << kernels::rans_most_precision> slots_{};
  kernels::RansSlots table_;
};

}  // namespace sotto
