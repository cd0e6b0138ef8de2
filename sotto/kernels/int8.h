#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// The functions of levels.h write these bytes when `top` is int8_top, the largest for which -128 is not needed.
constexpr unsigned int8_top = 127;

// out[i] += scale * (norm * (q * r)) for byte q, with r the float nearest to 1 / 127.
void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out);
// Whether no byte is -128, which is not a level.
bool valid_int8(std::span<const std::byte> in);

}  // namespace sotto::kernels
