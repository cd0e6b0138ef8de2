#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// Takes each element with a probability p = t / 2^31: element i is taken if the upper 31 bits of stream.quick(number +
// i) are below t. Writes first + i of the taken elements, ascending, and their 1 / p; returns how many there are. Zeros
// are never taken; t is at least 1 for all other elements, so that taken values times 1 / p are unbiased however p was
// rounded. REQUIRES finite values, a factor below 2^190, and room in `indices` and `scales` for values.size() numbers.
std::size_t draw_proportional(std::span<const float> values, double factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices,
                              float* scales);  // p = min(1, factor * |value|)
std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales);

// The sum of the |values| whose bits are below `least` (select.h), in doubles, in 16 lanes as in reduce.h.
double sum_abs_below(std::span<const float> values, std::uint32_t least);

}  // namespace sotto::kernels
