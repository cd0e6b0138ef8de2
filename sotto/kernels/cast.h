#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// IEEE binary16 of value * a * b (two factors, so that a power of two beyond the floats can be reached), rounded to
// nearest even; beyond 65504 saturated. REQUIRES finite values, out.size() == 2 * values.size().
void to_f16(std::span<const float> values, float a, float b, std::span<std::byte> out);
// out[i] += scale * f16 * unit, the product of the last two being at most the largest float when unit > 1. With a unit
// of at most 1, what is not finite stays so.
void add_f16(std::span<const std::byte> in, float unit, float scale, std::span<float> out);
// No infinity and no NaN among them.
bool all_finite_f16(std::span<const std::byte> in);

// bfloat16 of value * scale, rounded to nearest even; saturated at the largest bfloat16 rather than infinite.
void to_bf16(std::span<const float> values, float scale, std::span<std::byte> out);
void add_bf16(std::span<const std::byte> in, float scale, std::span<float> out);
bool all_finite_bf16(std::span<const std::byte> in);

// Floats, unchanged but for a factor, at any address.
void to_f32(std::span<const float> values, float scale, std::span<std::byte> out);
void add_f32(std::span<const std::byte> in, float scale, std::span<float> out);
bool all_finite_f32(std::span<const std::byte> in);

}  // namespace sotto::kernels
