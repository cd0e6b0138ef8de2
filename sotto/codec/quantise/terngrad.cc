#include "sotto/codec/quantise/terngrad.h"

#include <algorithm>
#include <cmath>

#include "sotto/codec/shared_work.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

bool TernGrad::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  if (count == 0) return true;
  kernels::Spread spread;
  if (options_.clip == 0) {
    spread.max_abs_bits = largest_magnitude(workers(), values.data);
  } else {
    spread = spread_of_chunks(workers(), count, [&](std::size_t begin, std::size_t end) {
      return kernels::spread_squares(values.data.subspan(begin, end - begin));
    });
  }
  if (spread.max_abs_bits >= kernels::infinity_bits) return false;
  const auto most = std::bit_cast<float>(spread.max_abs_bits);
  const double cut = options_.clip * std::sqrt(spread.sum / static_cast<double>(count));
  kernels::store(side.data(), 0, options_.clip == 0 ? most : static_cast<float>(std::min<double>(most, cut)));
  workers().run_stretches(count, kernels::sum_chunk, [&](std::size_t begin, std::size_t end) {
    levels_.write_symbols(values, begin, end, side, packed);
  });
  return true;
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
