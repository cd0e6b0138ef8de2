#include "app/cli/axis.h"

#include <algorithm>
#include <cmath>

namespace sotto {

bool Axis::shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

void Axis::cover(double value) {
  if (!shows(value)) return;
  low_ = std::min(low_, scaled(value));
  high_ = std::max(high_, scaled(value));
}

void Axis::widen(double margin) {
  if (low_ > high_) low_ = high_ = 0;  // there are no values
  // Values that differ in rounding alone are one value: no ticks would fit between them.
  const bool apart = high_ - low_ > 1e-9 * (logarithmic_ ? 1 : std::max(std::abs(low_), std::abs(high_)));
  const double more = apart ? margin * (high_ - low_) : logarithmic_ ? 0.5 : std::max(std::abs(low_) / 2, 0.5);
  low_ -= more;
  high_ += more;
}

std::vector<double> Axis::ticks() const { return logarithmic_ && high_ - low_ > 0.7 ? decades() : steps(); }

double Axis::scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }

// 1, 2 and 5 times powers of ten if these are few, otherwise powers of ten alone.
std::vector<double> Axis::decades() const {
  std::vector<double> found;
  const int apart = std::max(1, static_cast<int>((high_ - low_) / 6));
  for (int power = static_cast<int>(std::floor(low_)); power <= high_; power += apart) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && high_ - low_ > 2.5) continue;
      const double value = factor * std::pow(10.0, power);
      if (scaled(value) >= low_ && scaled(value) <= high_) found.push_back(value);
    }
  }
  return found;
}

std::vector<double> Axis::steps() const {
  const double first = logarithmic_ ? std::pow(10.0, low_) : low_;
  const double last = logarithmic_ ? std::pow(10.0, high_) : high_;
  const double raw = (last - first) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  std::vector<double> found;
  for (double n = std::ceil(first / step); n * step <= last; ++n) found.push_back(n * step + 0.0);  // -0 is 0
  return found;
}

}  // namespace sotto
