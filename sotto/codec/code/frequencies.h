#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sotto {

// Frequencies of symbols as rANS wants them: whole numbers that add up to 2^precision (docs/wire).

// Of a table for symbols with these counts: 10 .. 14.
unsigned precision_for(std::span<const std::uint32_t> counts);

// A frequency of at least 1 for each symbol that occurs. REQUIRES some symbol, and no more of them than 2^precision.
void share_frequencies(std::span<const std::uint32_t> counts, unsigned precision, std::span<std::uint32_t> frequencies);

// A byte of precision and an Elias gamma of each frequency plus 1, as far as the sum has not been reached. Nothing when
// it does not fit.
std::optional<std::size_t> write_frequencies(std::span<const std::uint32_t> frequencies, unsigned precision,
                                             std::span<std::byte> out);
struct FrequencyTable {
  unsigned precision = 0;
  std::size_t bytes = 0;
};
// Fills `frequencies`; WireError when they do not add up.
FrequencyTable read_frequencies(std::span<const std::byte> in, std::span<std::uint32_t> frequencies);

}  // namespace sotto
