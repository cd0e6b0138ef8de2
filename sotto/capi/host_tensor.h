#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/capi/sotto.h"
#include "sotto/core/dtype.h"

namespace sotto::capi {

// ConfigError for a number that is no type.
DType type_of(sotto_type type);
// The same for what codecs and averagers take: f32, f16 or bf16.
DType float_type_of(sotto_type type);
sotto_type type_of(DType type);

// ConfigError for too many dimensions, one below 0, or more elements than memory has.
std::vector<std::int64_t> read_shape(const std::int64_t* shape, std::size_t dimensions);

// The elements of a tensor of f32, f16 or bf16 as floats, the last dimension innermost.
std::vector<float> read_floats(const sotto_tensor& tensor);
// Writes such floats to it. NumericError if its type cannot hold one; the text begins with `what`, which names them.
void write_floats(std::span<const float> floats, const sotto_tensor& tensor, const char* what);

}  // namespace sotto::capi
