#include "app/model/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <optional>

namespace sotto {

at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, const Attending& how) {
  const auto split = [&](const at::Tensor& x) {
    return x.unflatten(2, {how.heads, x.size(2) / how.heads}).transpose(1, 2);
  };
  const auto mask = how.seen.defined() ? std::optional(how.seen) : std::nullopt;
  return at::scaled_dot_product_attention(split(queries), split(keys), split(values), mask, 0, how.earlier_only)
      .transpose(1, 2)
      .flatten(2);
}

}  // namespace sotto
