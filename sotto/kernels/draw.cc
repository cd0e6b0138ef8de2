#include "sotto/kernels/draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace sotto::kernels {
namespace {

constexpr float one = 0x1p31F;  // p = 1

// min(2^31, 2^31 * p), at least 1.
std::uint32_t threshold(float p) { return std::max(static_cast<std::uint32_t>(std::min(p * one, one)), 1U); }

template <class Threshold>
std::size_t draw(std::span<const float> values, const ElementStream& stream, std::uint32_t number, std::uint32_t first,
                 std::uint32_t* indices, float* scales, Threshold t_of) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const std::uint32_t t = t_of(std::abs(values[i]));
    indices[count] = first + i;
    scales[count] = one / static_cast<float>(t);
    count += values[i] != 0 && (stream.at(number + i) >> 1) < t ? 1 : 0;
  }
  return count;
}

}  // namespace

std::size_t draw_proportional(std::span<const float> values, float factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices, float* scales) {
  return draw(values, stream, number, first, indices, scales,
              [factor](float magnitude) { return threshold(factor * magnitude); });
}

std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales) {
  const std::uint32_t t = threshold(p);
  return draw(values, stream, number, first, indices, scales, [t](float) { return t; });
}

double sum_abs_below(std::span<const float> values, std::uint32_t least) {
  constexpr std::size_t lanes = 16;
  std::array<double, lanes> sum{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU;
    sum[i % lanes] += static_cast<double>(bits < least ? std::bit_cast<float>(bits) : 0.0F);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

}  // namespace sotto::kernels
