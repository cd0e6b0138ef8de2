#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

namespace sotto {

// The first of these numbers that becomes infinite as a float32; nothing if none does.
inline std::optional<double> beyond_float(std::span<const double> values) {
  constexpr double most = std::numeric_limits<float>::max();
  const auto found = std::ranges::find_if(values, [](double x) { return std::isfinite(x) && std::abs(x) > most; });
  if (found == values.end()) return std::nullopt;
  return *found;
}

}  // namespace sotto
