#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// A power of two beside value / (2 unit), at random so that the mean is right: its sign and the seven lower bits of its
// exponent, as floats have it (element_bytes.h). The units of blocks are powers of two, 2^-126 to 2^127. REQUIRES
// |value| < 2 unit.
void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out);
// out[i] += scale * (2 power * unit), the product in brackets being at most the largest float.
void add_powers(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);

}  // namespace sotto::kernels
