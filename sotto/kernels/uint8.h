#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// From the least to the largest value of a block in 255 equal steps (element::Interval), to the nearest level, ties to
// even. The norms here are two floats a block, the least and the largest value, as interval_blocks() writes them.
// REQUIRES both finite, the first not larger; no value beyond them.
void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out);
// At random, without bias.
void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out);
// out[i] += scale * the value of level i.
void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out);

}  // namespace sotto::kernels
