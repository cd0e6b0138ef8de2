#include "app/train/time_histogram.h"

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

constexpr double shortest = 1e-6;  // seconds; the end of the first bin

}  // namespace

void TimeHistogram::add(double seconds) {
  const double bin = seconds > shortest ? std::ceil(std::log2(seconds / shortest) * bins_an_octave) : 0;
  ++counts_[std::min(static_cast<std::size_t>(bin), counts_.size() - 1)];
  ++total_;
}

double TimeHistogram::median() const {
  if (total_ == 0) return 0;
  std::size_t bin = 0;
  for (std::uint64_t passed = counts_[0]; passed <= total_ / 2 && bin + 1 < counts_.size();) passed += counts_[++bin];
  return shortest * std::exp2((static_cast<double>(bin) - 0.5) / bins_an_octave);  // the middle of the bin
}

}  // namespace sotto
