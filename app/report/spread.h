#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sotto {

// A figure of several runs that differ in nothing but their seed.
struct Spread {
  double mean = 0;
  double deviation = 0;  // of a single run: the root of the sum of squares / (count - 1); 0 if there is one value
  std::size_t count = 0;

  // "97.12 % ± 0.31 %", each number in the text that `one` gives it; without a deviation that shows as 0.
  std::string text(const std::function<std::string(double)>& one) const;
};

// REQUIRES a value.
Spread spread_of(std::span<const double> values);

// For each figure, whether seeds alone may explain its distance from the best one: the means are no further apart than
// the root of the sum of the squares of both deviations. True for the best one. A figure of one run is taken to deviate
// like the figure that deviates most. False for a mean that is not finite.
std::vector<bool> near_best(std::span<const Spread> figures, bool rises);

}  // namespace sotto
