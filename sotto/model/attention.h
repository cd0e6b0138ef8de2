#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto {

// Scaled dot-product attention by `heads` heads (Vaswani et al., NIPS 2017), where each place sees itself and those
// before it. Queries, keys and values are (count, length, width), and so is the result.
at::Tensor attend_to_earlier(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                             std::int64_t heads);

}  // namespace sotto
