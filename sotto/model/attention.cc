#include "sotto/model/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace sotto {

at::Tensor attend_to_earlier(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                             std::int64_t heads) {
  const auto split = [heads](const at::Tensor& x) {
    return x.unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2);
  };
  const at::Tensor seen = at::scaled_dot_product_attention(split(queries), split(keys), split(values), {}, 0, true);
  return seen.transpose(1, 2).flatten(2);
}

}  // namespace sotto
