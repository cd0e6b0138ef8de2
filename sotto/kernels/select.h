#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// Magnitudes are compared as float bits without the sign, which has the order of |value|; infinities and NaN are the
// largest.

// Writes first + i, ascending, for every i whose magnitude bits are at least `least`; returns how many. REQUIRES
// least >= 1, so zeros are never written, and room in `out` for values.size() numbers.
std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out);

// Takes each element with a probability p = t / 2^31: element i is taken if the upper 31 bits of stream.quick(number +
// i) are below t. Writes first + i of the taken elements, ascending, and their 1 / p; returns how many there are. Zeros
// are never taken; t is at least 1 for all other elements, so that taken values times 1 / p are unbiased however p was
// rounded. REQUIRES finite values, a factor below 2^190, and room in `indices` and `scales` for values.size() numbers.
std::size_t draw_proportional(std::span<const float> values, double factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices,
                              float* scales);  // p = min(1, factor * |value|)
std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales);

// The sum of the |values| whose bits are below `least`, in doubles, in 16 lanes as in reduce.h.
double sum_abs_below(std::span<const float> values, std::uint32_t least);

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
