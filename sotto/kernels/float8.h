#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// 8-bit floats (OCP, 2023) of value / unit, rounded to nearest even, saturated; the units of blocks are powers of two
// from 2^-149 to 2^126. REQUIRES finite values, out.size() == values.size().
void to_e4m3(std::span<const float> values, const Norms& units, std::span<std::byte> out);
void to_e5m2(std::span<const float> values, const Norms& units, std::span<std::byte> out);
// out[i] += scale * (number * unit), the product in brackets being at most the largest float. REQUIRES units that are
// finite, bytes that all_numbers_... is true of.
void add_e4m3(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);
void add_e5m2(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out);
// No infinity and nothing that is no number among them.
bool all_numbers_e4m3(std::span<const std::byte> in);
bool all_numbers_e5m2(std::span<const std::byte> in);

}  // namespace sotto::kernels
