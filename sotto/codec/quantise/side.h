#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

inline constexpr float largest_float = std::numeric_limits<float>::max();

// Number of blocks of `block` values; block 0 means a single block.
constexpr std::size_t block_count(std::size_t values, std::size_t block) {
  return block == 0 ? (values > 0 ? 1 : 0) : (values + block - 1) / block;
}

// Whether the largest magnitude, from max_abs_bits(), is finite, and at most `limit` when multiplied by `scale`.
inline bool fits(std::uint32_t max_abs_bits, float scale, float limit) {
  return max_abs_bits < kernels::infinity_bits && std::abs(std::bit_cast<float>(max_abs_bits) * scale) <= limit;
}

// Checks the norms or scales of a piece's blocks: an encoder writes only finite, non-negative ones (and no -0).
inline void check_norms(std::span<const std::byte> side, const char* what) {
  for (std::size_t i = 0; i < side.size() / sizeof(float); ++i) {
    if (kernels::load<std::uint32_t>(side.data(), i) >= kernels::infinity_bits) {
      throw WireError(std::string(what) + ": the scale of a block is negative or not finite");
    }
  }
}

// Checks the units of a piece's blocks: they are powers of two.
inline void check_units(std::span<const std::byte> side, const char* what) {
  check_norms(side, what);
  for (std::size_t b = 0; b < side.size() / sizeof(float); ++b) {
    const auto bits = kernels::load<std::uint32_t>(side.data(), b);
    if (!std::has_single_bit(bits) && (bits == 0 || (bits & 0x7FFFFFU) != 0)) {
      throw WireError(std::string(what) + ": the unit of a block is not a power of two");
    }
  }
}

}  // namespace sotto
