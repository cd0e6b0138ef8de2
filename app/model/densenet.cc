#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

constexpr std::int64_t bottleneck = 4;  // channels inside a layer, in multiples of what it adds

Conv convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, bool binarise) {
  return Conv(torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2).bias(false), binarise);
}

// A layer whose input is all earlier outputs of its block; it adds `growth` channels.
struct DenseLayer final : torch::nn::Module {
  DenseLayer(std::int64_t in, std::int64_t growth, bool binarise)
      : norm1(register_module("norm1", torch::nn::BatchNorm2d(in))),
        conv1(register_module("conv1", convolution(in, bottleneck * growth, 1, binarise))),
        norm2(register_module("norm2", torch::nn::BatchNorm2d(bottleneck * growth))),
        conv2(register_module("conv2", convolution(bottleneck * growth, growth, 3, binarise))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor inner = through(conv1, through(norm1, x).relu_());
    return at::cat({x, through(conv2, through(norm2, inner).relu_())}, 1);
  }

  torch::nn::BatchNorm2d norm1;
  Conv conv1;
  torch::nn::BatchNorm2d norm2;
  Conv conv2;
};

// Halves the channels and the sides, between two blocks.
struct Transition final : torch::nn::Module {
  Transition(std::int64_t in, bool binarise)
      : norm(register_module("norm", torch::nn::BatchNorm2d(in))),
        conv(register_module("conv", convolution(in, in / 2, 1, binarise))) {}

  at::Tensor forward(const at::Tensor& x) { return at::avg_pool2d(through(conv, through(norm, x).relu_()), 2); }

  torch::nn::BatchNorm2d norm;
  Conv conv;
};

// DenseNet-BC (Huang, Liu, van der Maaten, Weinberger, CVPR 2017), named and laid out as torchvision does. For small
// images the stem is a 3x3 convolution alone.
class Densenet final : public ImageNetwork {
 public:
  Densenet(const ImageOptions& options, const std::vector<std::int64_t>& blocks, std::int64_t growth, bool large,
           const ImageShape& images, std::int64_t outputs)
      : ImageNetwork(options, "classifier") {
    auto features = register_module("features", std::make_shared<torch::nn::Module>());
    std::int64_t in = 2 * growth;
    stem_ = features->register_module("conv0", Conv(torch::nn::Conv2dOptions(images.channels, in, large ? 7 : 3)
                                                        .stride(large ? 2 : 1)
                                                        .padding(large ? 3 : 1)
                                                        .bias(false),
                                                    false));
    if (large) stem_norm_ = features->register_module("norm0", torch::nn::BatchNorm2d(in));
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      auto block = features->register_module(fmt::format("denseblock{}", b + 1), std::make_shared<torch::nn::Module>());
      for (std::int64_t i = 0; i < blocks[b]; ++i, in += growth) {
        layers_.push_back(block->register_module(fmt::format("denselayer{}", i + 1),
                                                 std::make_shared<DenseLayer>(in, growth, options.binarise)));
      }
      ends_.push_back(layers_.size());
      if (b + 1 == blocks.size()) break;
      transitions_.push_back(features->register_module(fmt::format("transition{}", b + 1),
                                                       std::make_shared<Transition>(in, options.binarise)));
      in /= 2;
    }
    norm_ = features->register_module("norm5", torch::nn::BatchNorm2d(in));
    classifier_ = register_module("classifier", torch::nn::Linear(in, outputs));
  }

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    at::Tensor x = through(stem_, images);
    if (stem_norm_) x = at::max_pool2d(through(stem_norm_, x).relu_(), 3, 2, 1);
    std::size_t layer = 0;
    for (std::size_t block = 0; block < ends_.size(); ++block) {
      while (layer < ends_[block]) x = layers_[layer++]->forward(x);
      if (block < transitions_.size()) x = transitions_[block]->forward(x);
    }
    return through(classifier_, through(norm_, x).relu_().mean({2, 3}));
  }

 protected:
  InitialWeight usual(std::string_view layer, const at::Tensor& weight) const override {
    if (weight.dim() == 4) return InitialWeight::normal(std::sqrt(2 / fan_in(weight)));
    return InitialWeight::uniform(ImageNetwork::usual(layer, weight).size, /*zero_bias=*/true);
  }

 private:
  Conv stem_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr;
  std::vector<std::shared_ptr<DenseLayer>> layers_;
  std::vector<std::size_t> ends_;  // of each block, in layers_
  std::vector<std::shared_ptr<Transition>> transitions_;
  torch::nn::BatchNorm2d norm_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};

}  // namespace

std::string DensenetBcOptions::problem() const {
  return depth % 6 == 4 ? "" : fmt::format("depth is 6n+4, not {}", depth);
}

MadeNetwork make_densenet121(const FormOptions& options, const ImageShape& shape, std::int64_t outputs) {
  const bool large = options.for_large(shape, 32);
  return std::make_shared<Densenet>(options, std::vector<std::int64_t>{6, 12, 24, 16}, 32, large, shape, outputs);
}

MadeNetwork make_densenet_bc(const DensenetBcOptions& options, const ImageShape& shape, std::int64_t outputs) {
  const std::vector<std::int64_t> blocks(3, (options.depth - 4) / 6);
  return std::make_shared<Densenet>(options, blocks, options.growth, false, shape, outputs);
}

}  // namespace sotto
