#include "app/model/layers.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <optional>

namespace sotto {

at::Tensor binarised(const at::Tensor& weight) {
  const at::Tensor clipped = weight.clamp(-1, 1);
  at::Tensor target;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor scale = weight.abs().flatten(1).mean(1);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(weight.dim()), 1);
    sizes[0] = weight.size(0);
    target = at::where(weight.ge(0), scale.view(sizes), -scale.view(sizes)) - clipped;
  }
  return clipped + target;
}

at::Tensor ConvImpl::forward(const at::Tensor& x) {
  if (!binarise_) return Conv2dImpl::forward(x);
  return _conv_forward(x, binarised(weight));
}

at::Tensor DenseImpl::forward(const at::Tensor& x) {
  return at::linear(x, binarise_ ? binarised(weight) : weight, bias);
}

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
