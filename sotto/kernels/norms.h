#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// The norms of a run of values of which every `block` share one: value j has norm number (first + j) / block of these
// floats, which may stand at any address; or of these pairs of floats, where a block has two ends instead (uint8.h).
// REQUIRES first < block.
struct Norms {
  std::span<const std::byte> floats;
  std::size_t block = 1;
  std::size_t first = 0;
};

}  // namespace sotto::kernels
