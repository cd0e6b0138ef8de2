#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/core/dtype.h"

namespace sotto::python {

// Our name of a tensor's type, where there is one; and the type of a codec's floats.
std::optional<DType> type_of(at::ScalarType type);
at::ScalarType scalar_of(DType type);
// Of a dense tensor of float32, float16 or bfloat16; ConfigError for all others.
DType codec_type(const at::Tensor& tensor);

// The dimensions in the order in which they lie in memory, where they lie densely: that of a bucket's values.
std::vector<std::int64_t> memory_shape(const at::Tensor& tensor);

// The memory of a contiguous tensor on the CPU.
std::span<float> floats_of(const at::Tensor& tensor);
std::span<std::byte> bytes_of(const at::Tensor& tensor);

}  // namespace sotto::python
