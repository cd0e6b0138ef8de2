#include "app/model/layers.h"

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

}  // namespace sotto
