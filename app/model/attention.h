#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto {

// Scaled dot-product attention by `heads` heads (Vaswani et al., NIPS 2017). Queries are (count, length, width), keys
// and values (count, places, width); the result is like the queries.
struct Attending {
  std::int64_t heads = 1;
  bool earlier_only = false;  // each place sees itself and those before it
  at::Tensor seen{};          // (count, 1, 1, places) of bool: which places are seen; undefined: all
};
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, const Attending& how);

}  // namespace sotto
