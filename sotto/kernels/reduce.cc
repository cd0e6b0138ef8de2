#include "sotto/kernels/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace sotto::kernels {
namespace {

constexpr std::size_t lanes = 16;

template <class Term>
double lane_sum(std::span<const float> values, Term term) {
  std::array<double, lanes> sum{};
  const std::size_t whole = values.size() / lanes * lanes;
  const float* data = values.data();
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sum[lane] += term(static_cast<double>(data[i + lane]));
  }
  for (std::size_t i = whole; i < values.size(); ++i) sum[i - whole] += term(static_cast<double>(data[i]));
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

}  // namespace

double sum_abs(std::span<const float> values) {
  return lane_sum(values, [](double x) { return std::abs(x); });
}

double sum_squares(std::span<const float> values) {
  return lane_sum(values, [](double x) { return x * x; });
}

std::uint32_t max_abs_bits(std::span<const float> values) {
  std::int32_t most = 0;  // signed comparison is the one that every vector unit has
  for (const float value : values) most = std::max(most, std::bit_cast<std::int32_t>(value) & 0x7FFFFFFF);
  return static_cast<std::uint32_t>(most);
}

bool all_finite(std::span<const float> values) { return max_abs_bits(values) < infinity_bits; }

}  // namespace sotto::kernels
