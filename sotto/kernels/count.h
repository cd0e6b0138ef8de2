#pragma once

#include <cstdint>
#include <span>

namespace sotto::kernels {

// counts[s] += how often s occurs. REQUIRES symbols below counts.size(), counts.size() <= 512, and fewer than 2^32
// symbols.
void count_symbols(std::span<const std::uint16_t> symbols, std::span<std::uint32_t> counts);

}  // namespace sotto::kernels
