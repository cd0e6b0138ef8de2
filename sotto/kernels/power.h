#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// Rounds value / (2 unit) to a neighbouring power of two, at random without bias. A byte has the sign and the seven
// lower bits of the exponent of a float (element_bytes.h). `units` holds the unit of each block, a power of two from
// 2^-126 to 2^127. REQUIRES |value| < 2 unit.
void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out);
// out[i] += scale * (2 power * unit), with the product in brackets saturated at the largest float.
void add_powers(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);

}  // namespace sotto::kernels
