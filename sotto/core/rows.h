#pragma once

#include <cstdint>
#include <span>

namespace sotto {

// A sparse example, borrowed: values[i] is the value of feature columns[i], and all other features are 0. Columns
// ascend.
struct Row {
  std::span<const std::uint32_t> columns;
  std::span<const float> values;
  float label = 0;
};

}  // namespace sotto
