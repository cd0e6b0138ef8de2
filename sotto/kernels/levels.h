#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

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

}  // namespace sotto::kernels
