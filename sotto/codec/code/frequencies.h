#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

}  // namespace sotto
