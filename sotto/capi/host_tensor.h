#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/capi/sotto.h"
#include "sotto/core/dtype.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/vector.h"

namespace sotto {

// Converts the bytes of f32, f16 or bf16 to floats times a factor.
inline void widen(std::span<const std::byte> from, DType type, float factor, std::span<float> to) {
  if (type == DType::f32) {
    std::ranges::copy(from, std::as_writable_bytes(to).begin());
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

namespace sotto::capi {

// ConfigError for a number that is no type.
DType type_of(sotto_type type);
// The same for what codecs and averagers take: f32, f16 or bf16.
DType float_type_of(sotto_type type);
sotto_type type_of(DType type);

// ConfigError for too many dimensions, one below 0, or more elements than memory has.
std::vector<std::int64_t> read_shape(const std::int64_t* shape, std::size_t dimensions);

// The elements of a tensor of any type, the last dimension innermost.
std::vector<std::byte> read_bytes(const sotto_tensor& tensor);
void write_bytes(std::span<const std::byte> bytes, const sotto_tensor& tensor);

// The elements of a tensor of f32, f16 or bf16 as floats in the same order.
std::vector<float> read_floats(const sotto_tensor& tensor);
// Writes such floats to it. NumericError if its type cannot hold one; the text begins with `what`, which names them.
void write_floats(std::span<const float> floats, const sotto_tensor& tensor, const char* what);

}  // namespace sotto::capi
