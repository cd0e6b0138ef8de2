#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/core/text.h"

namespace sotto {

using Json = nlohmann::ordered_json;

// Seven digits; what is not finite is null.
inline Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return parsed<double>(fmt::format("{:.7g}", value)).value_or(value);
}

inline Json numbers(const std::vector<double>& values) {
  auto array = Json::array();
  for (const double value : values) array.push_back(number(value));
  return array;
}

}  // namespace sotto
