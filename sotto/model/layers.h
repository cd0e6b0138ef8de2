#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace sotto {

// The signs of a weight, times the mean magnitude for each output (Rastegari et al., ECCV 2016). The gradient goes
// straight through to elements within [-1, 1] (Courbariaux, Bengio, David, NeurIPS 2015).
at::Tensor binarised(const at::Tensor& weight);

// torch's layers, which may forward with binarised weights.
class ConvImpl final : public torch::nn::Conv2dImpl {
 public:
  ConvImpl(const torch::nn::Conv2dOptions& shape, bool binarise) : Conv2dImpl(shape), binarise_(binarise) {}
  at::Tensor forward(const at::Tensor& x);

 private:
  bool binarise_;
};
TORCH_MODULE(Conv);

class DenseImpl final : public torch::nn::LinearImpl {
 public:
  DenseImpl(std::int64_t in, std::int64_t out, bool binarise) : LinearImpl(in, out), binarise_(binarise) {}
  at::Tensor forward(const at::Tensor& x);

 private:
  bool binarise_;
};
TORCH_MODULE(Dense);

}  // namespace sotto
