#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "sotto/core/error.h"
#include "sotto/kernels/load.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

inline constexpr float largest_float = std::numeric_limits<float>::max();

// Number of blocks of `block` values; with block 0, all values are one.
constexpr std::size_t block_count(std::size_t values, std::size_t block) {
  return block == 0 ? (values > 0 ? 1 : 0) : (values + block - 1) / block;
}

// Whether the largest magnitude, from max_abs_bits(), is finite and times `scale` at most `limit`.
inline bool fits(std::uint32_t max_abs_bits, float scale, float limit) {
  return max_abs_bits < kernels::infinity_bits && std::abs(std::bit_cast<float>(max_abs_bits) * scale) <= limit;
}

// The norms or scales of the blocks of a piece must be what an encoder writes: finite and not negative (not -0 either).
inline void check_norms(std::span<const std::byte> side, const char* what) {
  for (std::size_t i = 0; i < side.size() / sizeof(float); ++i) {
    if (kernels::load<std::uint32_t>(side.data(), i) >= kernels::infinity_bits) {
      throw WireError(std::string(what) + ": the scale of a block is negative or not finite");
    }
  }
}

}  // namespace sotto
