#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sotto/core/random.h"

namespace sotto::test {

// Normally distributed; another vector for each index.
inline std::vector<float> random_vector(std::size_t size, std::uint64_t index) {
  Philox random(7, Purpose::test, index);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

}  // namespace sotto::test
