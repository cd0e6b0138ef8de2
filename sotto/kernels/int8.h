#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/levels.h"

namespace sotto::kernels {

// Symmetric linear: q = v / norm * 127, a two's complement byte in -127 .. 127, rounded to nearest, ties to even.
// REQUIRES |v| <= norm, norm finite; all are 0 when norm is 0.
void to_int8(std::span<const float> values, float norm, std::span<std::byte> out);
// The same with stochastic rounding of the magnitude (levels.h).
void to_int8_stochastic(std::span<const float> values, float norm, const Draws& draws, std::span<std::byte> out);
// out[i] += scale * (norm * (q / 127)).
void add_int8(std::span<const std::byte> in, float norm, float scale, std::span<float> out);
// Whether no byte is -128, which the two above never write.
bool valid_int8(std::span<const std::byte> in);

}  // namespace sotto::kernels
