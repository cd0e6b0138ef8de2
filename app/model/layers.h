#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sotto {

// The signs of a weight, times the mean magnitude for each output (Rastegari et al., ECCV 2016). The gradient goes
// straight through to elements within [-1, 1] (Courbariaux, Bengio, David, NeurIPS 2015).
at::Tensor binarised(const at::Tensor& weight);

// torch's layers; if `binarise`, they forward with binarised weights.
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

inline torch::nn::LayerNorm layer_norm(std::int64_t width, double eps = 1e-5) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(eps));
}

// Registers a list of options.layers layers, each made from `options`.
template <class Layer, class Options>
std::vector<std::shared_ptr<Layer>> register_layers(torch::nn::Module& parent, const std::string& name,
                                                    const Options& options) {
  auto list = parent.register_module(name, torch::nn::ModuleList());
  std::vector<std::shared_ptr<Layer>> layers;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(std::make_shared<Layer>(options));
    list->push_back(layers.back());
  }
  return layers;
}

// Scaled dot-product attention by `heads` heads (Vaswani et al., NIPS 2017). Queries are (count, length, width), keys
// and values (count, places, width); the result is like the queries.
struct Attending {
  std::int64_t heads = 1;
  bool earlier_only = false;  // each place sees itself and those before it
  at::Tensor seen{};          // (count, 1, 1, places) of bool: which places are seen; undefined: all
};
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, const Attending& how);

}  // namespace sotto
