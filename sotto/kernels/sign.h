#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"

namespace sotto::kernels {

// Packs signs, least significant bit first: bit i is 1 if values[i] < 0 (both zeros count as positive). The bits after
// the last value are zero. Returns sum_abs(values) (reduce.h) from the same pass. REQUIRES
// out.size() == (values.size() + 7) / 8.
double pack_signs(std::span<const float> values, std::span<std::byte> out);
// The same, but the bit of a zero is the highest bit of its random number.
double pack_drawn_signs(std::span<const float> values, const Draws& draws, std::span<std::byte> out);
// out[i] -= magnitude if bit first + i of `in` is 1, else out[i] += magnitude.
void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out);

}  // namespace sotto::kernels
