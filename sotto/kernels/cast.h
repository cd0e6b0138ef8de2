#pragma once

#include <cstddef>
#include <span>

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

}  // namespace sotto::kernels
