#include "sotto/codec/quantise/terngrad.h"

#include <algorithm>
#include <cmath>

#include "sotto/kernels/reduce.h"

namespace sotto {

bool TernGrad::write_scale(std::span<const float> values, std::span<std::byte> side) const {
  const kernels::Spread spread = kernels::spread_squares(values);
  if (spread.max_abs_bits >= kernels::infinity_bits) return false;
  const double most = std::bit_cast<float>(spread.max_abs_bits);
  const double mean_square = spread.sum / static_cast<double>(values.size());
  kernels::store(side.data(), 0, static_cast<float>(std::min(most, options_.clip * std::sqrt(mean_square))));
  return true;
}

bool TernGrad::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  if (options_.clip == 0) return levels_.encode(values, largest_magnitudes, side, packed);
  const auto write = [this](std::span<const float> all, std::size_t, std::span<std::byte> out) {
    return write_scale(all, out);
  };
  return levels_.encode(values, write, side, packed);
}

void TernGrad::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                           std::span<float> out) const {
  levels_.add_decoded(side, packed, scale, out);
}

Contract TernGrad::contract(std::size_t largest) const {
  if (options_.clip != 0) {
    return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0, .grain = Contract::Grain::segment};
  }
  // E|C(x)-x|^2 = s |x|_1 - |x|^2, and s |x|_1 <= |x| sqrt(n) |x|.
  const double n = static_cast<double>(std::max<std::size_t>(largest, 1));
  return {.kind = Contract::Kind::unbiased,
          .omega = std::sqrt(n),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment};
}

}  // namespace sotto
