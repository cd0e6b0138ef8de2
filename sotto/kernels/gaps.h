#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// What the gaps in front of ascending numbers take when they are written. The gap of a number is how many are skipped
// between the one before it and itself.
struct GapSizes {
  std::uint64_t more_groups = 0;             // of 7 bits, beyond the one that every gap has
  std::uint64_t long_runs = 0;               // sum of floor(gap / 65535)
  std::array<std::uint64_t, 3> quotients{};  // sums of floor(gap / 2^shift), of shift + 1 and shift + 2
};

// `next` is the smallest number that may stand in front. REQUIRES next <= numbers[0] < numbers[1] ..., shift <= 29.
GapSizes gap_sizes(std::span<const std::uint32_t> numbers, std::uint32_t next, unsigned shift);

}  // namespace sotto::kernels
