#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/dtype.h"

namespace sotto::python {

// Our name of a tensor's type, if there is one; and torch's type for a codec's floats.
std::optional<DType> type_of(at::ScalarType type);
at::ScalarType scalar_of(DType type);
// A codec's floats as a tensor of that type. NumericError if some do not fit; its text begins with `what`, which names
// the floats.
at::Tensor as_type(const at::Tensor& floats, DType type, const std::string& what);
// The type of a dense tensor of float32, float16 or bfloat16; ConfigError for all others.
DType codec_type(const at::Tensor& tensor);

// The sizes of a dense tensor's dimensions in the order of its memory, which is the order of a bucket's values.
std::vector<std::int64_t> memory_shape(const at::Tensor& tensor);

// The memory of a contiguous tensor on the CPU.
std::span<float> floats_of(const at::Tensor& tensor);
std::span<std::byte> bytes_of(const at::Tensor& tensor);

}  // namespace sotto::python
