#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// Which random number each value of a run uses: value j uses stream.quick(offset + j), or, unless `numbers` is empty,
// stream.quick(offset + numbers[j]); both sums are modulo 2^32.
struct Draws {
  ElementStream stream;
  std::uint32_t offset = 0;
  std::span<const std::uint32_t> numbers;

  Draws part(std::size_t begin, std::size_t count) const {
    if (numbers.empty()) return {stream, offset + static_cast<std::uint32_t>(begin), {}};
    return {stream, offset, numbers.subspan(begin, count)};
  }
  std::uint32_t number(std::size_t j) const {
    return offset + (numbers.empty() ? static_cast<std::uint32_t>(j) : numbers[j]);
  }
};

}  // namespace sotto::kernels
