#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Sums from which the encoded sizes of an ascending list follow. The gap of a number is the count of numbers that are
// skipped between the previous one and itself.
struct GapSizes {
  std::uint64_t more_groups = 0;             // 7-bit groups beyond the first one of each gap
  std::uint64_t long_runs = 0;               // sum of floor(gap / 65535)
  std::array<std::uint64_t, 3> quotients{};  // sums of floor(gap / 2^s) for s = shift, shift + 1, shift + 2
};

// `next`: the smallest number that numbers[0] could be. REQUIRES next <= numbers[0] < numbers[1] ..., shift <= 29.
GapSizes gap_sizes(std::span<const std::uint32_t> numbers, std::uint32_t next, unsigned shift);

}  // namespace sotto::kernels
