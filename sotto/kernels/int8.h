#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// Symmetric linear: the level of levels.h with a top of 127, and the value's sign, as a two's complement byte in -127
// .. 127; to nearest, ties to even. REQUIRES |v| <= norm, norm finite; all are 0 when norm is 0.
void to_int8(std::span<const float> values, const Norms& norms, std::span<std::byte> out);
// At random, without bias.
void to_int8_stochastic(std::span<const float> values, const Norms& norms, const Draws& draws,
                        std::span<std::byte> out);
// out[i] += scale * (norm * (q * r)), r being the float nearest to 1 / 127.
void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out);
// Whether no byte is -128, which the two above never write.
bool valid_int8(std::span<const std::byte> in);

}  // namespace sotto::kernels
