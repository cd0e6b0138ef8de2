#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "sotto/codec/codec.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/kernels/load.h"
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

// Options of int8 and int4; uint8 shares some.
struct RoundingOptions {
  explicit RoundingOptions(std::int64_t size) : block(size) {}
  static constexpr std::string_view stochastic_help = "round at random, without bias, instead of to the nearest";
  std::int64_t block;
  bool stochastic = false;
  void visit(OptionVisitor& v) {
    v.option("block", block, "values that share a scale", Bounds{1, 1U << 30});
    v.option("stochastic", stochastic, stochastic_help);
  }
};

// The contract of rounding to multiples of (a block's largest magnitude / top), at random or to the nearest.
inline Contract linear_contract(std::size_t largest, std::size_t block, unsigned top, bool stochastic) {
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, block), 1));
  // Each of n values has an error of at most half a step; one value is `top` steps large.
  const double half_steps = n / (4.0 * top * top);
  Contract contract{.input = Contract::Input::delta, .grain = Contract::Grain::block, .block = block};
  if (stochastic) {
    contract.kind = Contract::Kind::unbiased;
    contract.chance = Contract::Chance::own;
    contract.omega = std::min(half_steps, std::sqrt(n) / top);
    contract.delta = 0;
  } else {
    // No error exceeds the value itself, and the largest value of the block is exact.
    contract.kind = Contract::Kind::contraction;
    contract.delta = std::max(1 - half_steps, 1 / n);
  }
  return contract;
}

}  // namespace sotto
