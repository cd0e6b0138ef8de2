#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/run.h"

namespace sotto::kernels {

// Converts value * a * b to IEEE binary16, rounded to nearest even and saturated at 65504. There are two factors
// because a * b may be a power of two beyond the range of floats. REQUIRES finite values, out.size() == 2 *
// values.size().
void to_f16(std::span<const float> values, float a, float b, std::span<std::byte> out);
// out[i] += scale * (f16 * unit). If unit > 1 the product in brackets is saturated at the largest float; otherwise
// infinities and NaN remain.
void add_f16(std::span<const std::byte> in, float unit, float scale, std::span<float> out);
// Whether none of the numbers is infinite or NaN.
bool all_finite_f16(std::span<const std::byte> in);

// Converts value * scale to bfloat16, rounded to nearest even and saturated at the largest bfloat16.
void to_bf16(std::span<const float> values, float scale, std::span<std::byte> out);
void add_bf16(std::span<const std::byte> in, float scale, std::span<float> out);
bool all_finite_bf16(std::span<const std::byte> in);

// Copies floats, times a factor, to or from bytes of any alignment.
void to_f32(std::span<const float> values, float scale, std::span<std::byte> out);
void add_f32(std::span<const std::byte> in, float scale, std::span<float> out);
bool all_finite_f32(std::span<const std::byte> in);

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

// Rounds value / (2 unit) to a neighbouring power of two, at random without bias. A byte has the sign and the seven
// lower bits of the exponent of a float (element_bytes.h). `units` holds the unit of each block, a power of two from
// 2^-126 to 2^127. REQUIRES |value| < 2 unit.
void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out);
// out[i] += scale * (2 power * unit), with the product in brackets saturated at the largest float.
void add_powers(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);

}  // namespace sotto::kernels
