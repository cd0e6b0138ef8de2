#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sotto {

// While it lives, this thread rounds floats to the nearest and keeps denormal numbers, whatever its caller has set
// (torch.set_flush_denormal). Encoded and decoded values depend on this, and all threads and ranks must agree on them.
class PlainFloats {
 public:
  PlainFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainFloats() { std::fesetenv(&before_); }
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
  std::fenv_t before_;
};

// The first of these numbers that is finite, but beyond the largest float32; nothing if there is none.
inline std::optional<double> beyond_float(std::span<const double> values) {
  constexpr double most = std::numeric_limits<float>::max();
  const auto found = std::ranges::find_if(values, [](double x) { return std::isfinite(x) && std::abs(x) > most; });
  if (found == values.end()) return std::nullopt;
  return *found;
}

// The median of some values. If their number is even, it is the larger of the two in the middle. REQUIRES a value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace sotto
