#pragma once

#include <cstdint>
#include <span>

namespace sotto {

// A sparse example, borrowed: value i is that of feature columns[i]; all others are 0. Columns ascend.
struct Row {
  std::span<const std::uint32_t> columns;
  std::span<const float> values;
  float label = 0;
};

}  // namespace sotto
