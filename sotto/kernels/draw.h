#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// Coins of probability p = t / 2^31 decide which elements are taken: element i is, when the upper 31 bits of
// stream.quick(number + i) are below t. Writes first + i of those taken, ascending, and 1 / p; returns how many. Zeros
// are never taken, and t is at least 1 for all others, so what is taken, times 1 / p, has the right mean however p was
// rounded.  REQUIRES finite values, a factor below 2^190, and room in `indices` and `scales` for values.size() numbers.
std::size_t draw_proportional(std::span<const float> values, double factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices,
                              float* scales);  // p = min(1, factor * |value|)
std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales);

// The sum of the |values| whose bits are below `least` (select.h), in 16 lanes of doubles as in reduce.h.
double sum_abs_below(std::span<const float> values, std::uint32_t least);

}  // namespace sotto::kernels
