#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// The norms of a run of values, one for every `block` values: value j has norm number (first + j) / block. `floats`
// holds the norms as floats at any alignment, or pairs of floats where a block has two ends instead (to_uint8()).
// REQUIRES first < block.
struct Norms {
  std::span<const std::byte> floats;
  std::size_t block = 1;
  std::size_t first = 0;
};

// The random number of each value of a run. Without `numbers`, value j uses stream.quick(offset + j); otherwise it uses
// stream.quick(offset + numbers[j]). Both sums are modulo 2^32.
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
