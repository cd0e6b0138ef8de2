#pragma once

#include <cstdint>
#include <span>

namespace sotto {

// The code word lengths of the best prefix code for symbols with these counts, none above `longest` (package-merge;
// Larmore, Hirschberg, JACM 1990); 0 for symbols that do not occur. A single symbol gets a companion, and both have
// length 1. REQUIRES at least one symbol, at most 512 and at most 2^longest of them, and longest <= 15.
void code_lengths(std::span<const std::uint32_t> counts, unsigned longest, std::span<std::uint8_t> lengths);

}  // namespace sotto
