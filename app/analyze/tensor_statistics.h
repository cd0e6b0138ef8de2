#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// Equal bins over [-most, most], where `most` is the largest magnitude of the values.
struct Histogram {
  static constexpr std::size_t bins = 64;

  double most = 0;
  std::array<std::uint64_t, bins> counts{};

  double low(std::size_t bin) const { return most * (2.0 * static_cast<double>(bin) / bins - 1); }
  // The entropy of the shares of values in the bins, in bits: from 0 (all in one bin) to 6.
  double entropy() const;
};

// Statistics of the values of a tensor that do not depend on their order. All are 0 for a tensor without values.
struct TensorStatistics {
  std::size_t elements = 0;
  double mean = 0, deviation = 0;     // of all elements: divided by their number
  double skewness = 0, kurtosis = 0;  // third and fourth moment of (x - mean) / deviation; a normal one has 0 and 3
  double least = 0, most = 0;
  double l1 = 0, l2 = 0;
  double zeros = 0;        // the share of elements that are zero
  double hoyer = 0;        // (sqrt(n) - l1 / l2) / (sqrt(n) - 1): from 0 (equal magnitudes) to 1 (one element)
  double top_percent = 0;  // the share of |x|^2 that is in the largest hundredth of the elements, one at least
  Histogram histogram{};
};

// REQUIRES finite values.
TensorStatistics statistics_of(std::span<const float> values);

}  // namespace sotto
