#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// Converts value / unit to 8-bit floats (OCP, 2023), rounded to nearest even and saturated. `units` holds the unit of
// each block, a power of two from 2^-149 to 2^126. REQUIRES finite values, out.size() == values.size().
void to_e4m3(std::span<const float> values, const Norms& units, std::span<std::byte> out);
void to_e5m2(std::span<const float> values, const Norms& units, std::span<std::byte> out);
// out[i] += scale * (number * unit), with the product in brackets saturated at the largest float. REQUIRES finite
// units, and bytes for which all_numbers_e4m3() or all_numbers_e5m2() is true.
void add_e4m3(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);
void add_e5m2(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);
// Whether none of the bytes is an infinity or NaN.
bool all_numbers_e4m3(std::span<const std::byte> in);
bool all_numbers_e5m2(std::span<const std::byte> in);

}  // namespace sotto::kernels
