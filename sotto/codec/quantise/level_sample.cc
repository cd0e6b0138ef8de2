#include "sotto/codec/quantise/level_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/spread_sample.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/load.h"

namespace sotto {

void LevelSample::reserve(std::size_t most) {
  sorted_.room(most);
  room_.room(most);
  sums_room_.room(most + 1);
}

void LevelSample::take(std::span<const float> values, const kernels::Norms& norms, std::size_t count,
                       const ElementStream& stream) {
  const auto sorted = sorted_.room(count);
  std::size_t taken = 0;
  visit_sample(values.size(), count, stream, [&](std::size_t i) {
    const auto norm = kernels::load<float>(norms.floats.data(), i / norms.block);
    const float share = std::min(std::abs(kernels::element::Grid(norm, 1).at(values[i])), 1.0F);
    sorted[taken++] = std::uint64_t{std::bit_cast<std::uint32_t>(share)} << 32 | std::bit_cast<std::uint32_t>(norm);
  });
  std::ranges::sort(sorted);
  const auto shares = room_.room(count);
  const auto sums = sums_room_.room(count + 1);
  sums[0] = {};
  for (std::size_t i = 0; i < count; ++i) {
    shares[i] = std::bit_cast<float>(static_cast<std::uint32_t>(sorted[i] >> 32));
    const double share = shares[i];
    const double norm = std::bit_cast<float>(static_cast<std::uint32_t>(sorted[i]));
    const double weight = norm * norm;
    sums[i + 1] = {sums[i].weight + weight, sums[i].shares + weight * share, sums[i].squares + weight * share * share};
  }
  shares_ = shares;
  sums_ = sums;
}

std::size_t LevelSample::below(float share) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(shares_, share) - shares_.begin());
}

std::size_t LevelSample::up_to(float share) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(shares_, share) - shares_.begin());
}

LevelSample::Moments LevelSample::sum(std::size_t first, std::size_t last) const {
  const Moments &from = sums_[first], &to = sums_[last];
  return {to.weight - from.weight, to.shares - from.shares, to.squares - from.squares};
}

double LevelSample::variance(std::size_t first, std::size_t last, double low, double high) const {
  const Moments some = sum(first, last);
  return std::max((low + high) * some.shares - low * high * some.weight - some.squares, 0.0);
}

double LevelSample::variance(std::span<const float> levels) const {
  double all = 0;
  for (std::size_t j = 1; j < levels.size(); ++j) {
    all += variance(up_to(levels[j - 1]), up_to(levels[j]), levels[j - 1], levels[j]);
  }
  return all;
}

}  // namespace sotto
