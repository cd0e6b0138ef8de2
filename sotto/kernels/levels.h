#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// Rounding to whole numbers: a level is about v * (top / norm), in -top .. top; symbols stand for 0, -1, 1, -2, 2, ...
// (element.h has the exact operations.) All levels are 0 when the norm is 0. REQUIRES norms finite, top <= 255.

// To the nearest, ties to even. REQUIRES |v| <= norm.
void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::uint16_t> symbols);

// Up or down at random, without bias: the probability is right to about 2^-24, and what is less than that above a whole
// number is always rounded down to it. What is beyond the norm counts as the norm.
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols);

// The same, as levels: bytes in two's complement. REQUIRES top <= 127.
void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::byte> levels);
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::byte> levels);

// out[i] += scale * (norm * (level * r)), r being the float nearest to 1 / top. The symbol 2 top + 1 counts as 2 top
// - 1.
void add_levels(std::span<const std::uint16_t> symbols, const Norms& norms, unsigned top, float scale,
                std::span<float> out);

}  // namespace sotto::kernels
