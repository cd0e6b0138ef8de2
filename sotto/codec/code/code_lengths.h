#pragma once

#include <cstdint>
#include <span>

namespace sotto {

// Lengths of the best prefix code for symbols that occur so often, none above `longest` (package-merge; Larmore,
// Hirschberg, JACM 1990); 0 for those that do not occur. A symbol that is alone gets a companion: both have length 1.
// REQUIRES some symbol, at most 512 and at most 2^longest of them, and longest <= 15.
void code_lengths(std::span<const std::uint32_t> counts, unsigned longest, std::span<std::uint8_t> lengths);

}  // namespace sotto
