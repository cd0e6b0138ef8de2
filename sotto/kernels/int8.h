#pragma once

#include <cstddef>
#include <span>

#include "sotto/kernels/norms.h"

namespace sotto::kernels {

// What levels.h makes bytes of with this top: the largest that has no need of -128.
constexpr unsigned int8_top = 127;

// out[i] += scale * (norm * (q * r)), r being the float nearest to 1 / 127.
void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out);
// Whether no byte is -128, which is no level.
bool valid_int8(std::span<const std::byte> in);

}  // namespace sotto::kernels
