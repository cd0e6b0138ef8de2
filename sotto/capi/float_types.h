#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

#include "sotto/core/dtype.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/vector.h"

namespace sotto {

// Converts the bytes of f32, f16 or bf16 to floats times a factor.
inline void widen(std::span<const std::byte> from, DType type, float factor, std::span<float> to) {
  if (type == DType::f32) {
    std::memcpy(to.data(), from.data(), from.size());
    if (factor != 1) kernels::scale(factor, to);
    return;
  }
  std::ranges::fill(to, 0.0F);
  if (type == DType::f16) kernels::add_f16(from, 1.0F, factor, to);
  if (type == DType::bf16) kernels::add_bf16(from, factor, to);
}

// Converts floats times a factor back. If one is not finite, the first is not (AveragerOptions::propagate).
inline void narrow(std::span<const float> from, DType type, float factor, std::span<std::byte> to) {
  if (type == DType::f32) {
    kernels::to_f32(from, factor, to);
  } else if (!from.empty() && !std::isfinite(from.front())) {
    std::ranges::fill(to, std::byte{0xFF});  // NaN in either type
  } else if (type == DType::f16) {
    kernels::to_f16(from, factor, 1.0F, to);
  } else {
    kernels::to_bf16(from, factor, to);
  }
}

}  // namespace sotto
