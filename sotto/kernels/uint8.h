#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// Divides the range of each block into 255 equal steps (element::Interval), and rounds to the nearest level, ties to
// even. `ends` has two floats per block, its least and largest value, as interval_blocks() writes them. REQUIRES finite
// ends, the first not above the second, and no value beyond them.
void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out);
// Rounds up or down at random, without bias.
void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out);
// out[i] += scale * the value of level in[i].
void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out);

}  // namespace sotto::kernels
