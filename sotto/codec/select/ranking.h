#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"

namespace sotto {

// The rank-th largest (counted from 1) of numbers below 2^31, and how many numbers are larger and how many equal it.
struct Ranked {
  std::uint32_t value = 0;
  std::size_t larger = 0, equal = 0;
};
// Three counting passes, over 11, 10 and 10 bits. REQUIRES 1 <= rank <= numbers.size() < 2^32.
Ranked rank_largest(ThreadPool& pool, std::span<const std::uint32_t> numbers, std::size_t rank);

}  // namespace sotto
