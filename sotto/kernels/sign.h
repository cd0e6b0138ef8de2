#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"

namespace sotto::kernels {

// Bit i is 1 where values[i] < 0 (so both zeros count as positive), least significant bit first; the bits after the
// last value are zero. Returns sum_abs(values) (reduce.h), so that one pass does for both. REQUIRES out.size() ==
// (values.size() + 7) / 8.
double pack_signs(std::span<const float> values, std::span<std::byte> out);
// The same, but the bit of a zero is the highest of its random number.
double pack_drawn_signs(std::span<const float> values, const Draws& draws, std::span<std::byte> out);
// out[i] += magnitude, or -= where bit first + i of `in` is 1.
void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out);

}  // namespace sotto::kernels
