#include "app/analyze/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace sotto {
namespace {

Histogram histogram_of(std::span<const float> values, double most) {
  Histogram histogram{.most = most};
  for (const float value : values) {
    const double at = most > 0 ? (value + most) / (2 * most) * Histogram::bins : 0.5 * Histogram::bins;
    ++histogram.counts[std::min(static_cast<std::size_t>(at), Histogram::bins - 1)];
  }
  return histogram;
}

// Squares of floats are doubles: as floats they might be infinite.
double square_of_largest(std::span<const float> values) {
  std::vector<float> sizes(values.size());
  std::ranges::transform(values, sizes.begin(), [](float value) { return std::abs(value); });
  const std::size_t count = std::max<std::size_t>(1, values.size() / 100);
  const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(sizes.begin(), end - 1, sizes.end(), std::greater<>());
  return std::accumulate(sizes.begin(), end, 0.0, [](double sum, double size) { return sum + size * size; });
}

}  // namespace

double Histogram::entropy() const {
  const double all = static_cast<double>(std::reduce(counts.begin(), counts.end()));
  double bits = 0;
  for (const std::uint64_t count : counts) {
    const double share = static_cast<double>(count) / all;
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

TensorStatistics statistics_of(std::span<const float> values) {
  TensorStatistics s;
  s.elements = values.size();
  if (values.empty()) return s;
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  std::size_t zeros = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    s.l1 += std::abs(value);
    zeros += value == 0 ? 1 : 0;
  }
  const auto [least, most] = std::ranges::minmax(values);
  s.least = least;
  s.most = most;
  s.mean = sum / n;
  s.l2 = std::sqrt(squares);
  s.zeros = static_cast<double>(zeros) / n;
  double second = 0, third = 0, fourth = 0;
  for (const double value : values) {
    const double from_mean = value - s.mean, square = from_mean * from_mean;
    second += square;
    third += square * from_mean;
    fourth += square * square;
  }
  const double variance = second / n;
  s.deviation = std::sqrt(variance);
  if (variance > 0) {
    s.skewness = third / n / (variance * s.deviation);
    s.kurtosis = fourth / n / (variance * variance);
  }
  if (squares > 0) {
    s.top_percent = square_of_largest(values) / squares;
    if (n > 1) s.hoyer = (std::sqrt(n) - s.l1 / s.l2) / (std::sqrt(n) - 1);
  }
  s.histogram = histogram_of(values, std::max(std::abs(s.least), std::abs(s.most)));
  return s;
}

}  // namespace sotto
