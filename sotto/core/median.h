#pragma once

#include <algorithm>
#include <vector>

namespace sotto {

// The median of some values; of an even number of them the upper one of the two in the middle. REQUIRES a value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace sotto
