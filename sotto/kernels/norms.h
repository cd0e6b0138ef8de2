#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// The norms of a run of values, one for every `block` values: value j has norm number (first + j) / block. `floats`
// holds the norms as floats at any alignment, or pairs of floats where a block has two ends instead (uint8.h). REQUIRES
// first < block.
struct Norms {
  std::span<const std::byte> floats;
  std::size_t block = 1;
  std::size_t first = 0;
};

}  // namespace sotto::kernels
