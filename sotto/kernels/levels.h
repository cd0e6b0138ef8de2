#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/run.h"

namespace sotto::kernels {

// Rounding to whole numbers: the level of v is about v * (top / norm), in -top .. top (element.h has the exact
// operations). Symbols 0, 1, 2, 3, 4, .. stand for the levels 0, -1, 1, -2, 2, .. All levels are 0 when the norm is 0.
// REQUIRES finite norms, top <= 255.

// Rounds to the nearest level, ties to even. REQUIRES |v| <= norm.
void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::uint16_t> symbols);

// Rounds up or down at random, without bias: the probability is right to about 2^-24, and fractions below that are
// always rounded down. Values beyond the norm are clamped to it.
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols);

// The same, but writes levels, as bytes in two's complement, in place of symbols. REQUIRES top <= 127.
void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::byte> levels);
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::byte> levels);

// out[i] += scale * (norm * (level * r)), with r the float nearest to 1 / top. Symbol 2 top + 1 counts as 2 top - 1.
void add_levels(std::span<const std::uint16_t> symbols, const Norms& norms, unsigned top, float scale,
                std::span<float> out);

// The functions above write these bytes when `top` is int8_top, the largest for which -128 is not needed.
constexpr unsigned int8_top = 127;

// out[i] += scale * (norm * (q * r)) for byte q, with r the float nearest to 1 / 127.
void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out);
// Whether no byte is -128, which is not a level.
bool valid_int8(std::span<const std::byte> in);

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
