#include <fmt/format.h>

#include <cmath>

#include "app/model/image_network.h"
#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {
namespace {

// Blocks are named and laid out as torchvision does.
struct Shape {
  std::vector<std::int64_t> blocks;    // of each stage
  std::vector<std::int64_t> channels;  // of each stage, before the width
  bool bottleneck = false;
  bool thin = false;  // the form for CIFAR with three stages, whose shortcuts have no parameters
};

Shape shape_of(std::int64_t depth) {
  const std::vector<std::int64_t> four{64, 128, 256, 512};
  switch (depth) {
    case 18: return {{2, 2, 2, 2}, four};
    case 34: return {{3, 4, 6, 3}, four};
    case 50: return {{3, 4, 6, 3}, four, true};
    case 101: return {{3, 4, 23, 3}, four, true};
    case 152: return {{3, 8, 36, 3}, four, true};
    default: return {std::vector<std::int64_t>(3, (depth - 2) / 6), {16, 32, 64}, false, true};
  }
}

// A batch norm follows every convolution, so convolutions have no bias.
Conv convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, bool binarise) {
  return Conv(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false), binarise);
}

// A 1x1 convolution and its norm, where a block changes the shape of its input.
struct Projection final : torch::nn::Module {
  Projection(std::int64_t in, std::int64_t out, std::int64_t stride, bool binarise)
      : conv(register_module("0", convolution(in, out, 1, stride, binarise))),
        norm(register_module("1", torch::nn::BatchNorm2d(out))) {}

  at::Tensor forward(const at::Tensor& x) { return through(norm, through(conv, x)); }

  Conv conv;
  torch::nn::BatchNorm2d norm;
};

// Two 3x3 convolutions, or a 3x3 convolution between two 1x1 convolutions (a bottleneck).
struct Block final : torch::nn::Module {
  Block(std::int64_t in, std::int64_t inner, std::int64_t out, std::int64_t stride, const Shape& shape,
        const ResnetOptions& options)
      : in_(in), out_(out), stride_(stride) {
    if (shape.bottleneck) {
      add(in, inner, 1, 1, options);
      add(inner, inner, 3, stride, options);
      add(inner, out, 1, 1, options);
    } else {
      add(in, inner, 3, stride, options);
      add(inner, out, 3, 1, options);
    }
    if (options.zero_gamma) torch::nn::init::zeros_(norms_.back()->weight);
    if ((in != out || stride != 1) && !shape.thin) {
      projection_ = register_module("downsample", std::make_shared<Projection>(in, out, stride, options.binarise));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      y = through(norms_[i], through(convs_[i], y));
      if (i + 1 < convs_.size()) y.relu_();
    }
    return (y + shortcut(x)).relu_();
  }

 private:
  void add(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, const ResnetOptions& options) {
    const std::size_t number = convs_.size() + 1;
    convs_.push_back(
        register_module(fmt::format("conv{}", number), convolution(in, out, kernel, stride, options.binarise)));
    norms_.push_back(register_module(fmt::format("bn{}", number), torch::nn::BatchNorm2d(out)));
  }

  at::Tensor shortcut(const at::Tensor& x) {
    if (projection_) return projection_->forward(x);
    if (in_ == out_ && stride_ == 1) return x;
    // Option A of He et al.: every `stride`-th pixel, and zeros for the channels that are new.
    const at::Tensor fewer = x.slice(2, 0, x.size(2), stride_).slice(3, 0, x.size(3), stride_);
    const std::int64_t before = (out_ - in_) / 2;
    return at::constant_pad_nd(fewer, {0, 0, 0, 0, before, out_ - in_ - before});
  }

  std::int64_t in_, out_, stride_;
  std::vector<Conv> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  std::shared_ptr<Projection> projection_;
};

// ResNet (He, Zhang, Ren, Sun, CVPR 2016). A bottleneck has its stride in the 3x3 convolution, as in torchvision.
// For small images the stem is a 3x3 convolution of stride 1, without pooling.
class Resnet final : public ImageNetwork {
 public:
  Resnet(const ResnetOptions& options, bool large, const ImageShape& images, std::int64_t outputs)
      : ImageNetwork(options, "fc"), large_(large) {
    const Shape shape = shape_of(options.depth);
    const auto widened = [&](std::int64_t channels) {
      return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * options.width));
    };
    // The option `width` widens only the 3x3 convolution of a bottleneck.
    std::int64_t in = shape.bottleneck ? shape.channels[0] : widened(shape.channels[0]);
    stem_ = register_module("conv1", convolution(images.channels, in, large ? 7 : 3, large ? 2 : 1, false));
    norm_ = register_module("bn1", torch::nn::BatchNorm2d(in));
    for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
      const std::int64_t inner = widened(shape.channels[stage]);
      const std::int64_t out = shape.bottleneck ? 4 * shape.channels[stage] : inner;
      auto blocks = register_module(fmt::format("layer{}", stage + 1), std::make_shared<torch::nn::Module>());
      for (std::int64_t block = 0; block < shape.blocks[stage]; ++block, in = out) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        blocks_.push_back(blocks->register_module(std::to_string(block),
                                                  std::make_shared<Block>(in, inner, out, stride, shape, options)));
      }
    }
    fc_ = register_module("fc", torch::nn::Linear(in, outputs));
  }

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    at::Tensor x = through(norm_, through(stem_, images)).relu_();
    if (large_) x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& block : blocks_) x = block->forward(x);
    return through(fc_, x.mean({2, 3}));
  }

 protected:
  // Preserves the variance of gradients through a convolution and its ReLU (He et al., ICCV 2015, fan-out).
  InitialWeight usual(std::string_view layer, const at::Tensor& weight) const override {
    if (weight.dim() != 4) return ImageNetwork::usual(layer, weight);
    return InitialWeight::uniform(std::sqrt(6 / fan_out(weight)));
  }

 private:
  bool large_;
  Conv stem_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear fc_ = nullptr;
};

constexpr std::int64_t bottleneck = 4;  // channels inside a layer, as a multiple of those that it adds

// A layer whose input is all earlier outputs of its block; it adds `growth` channels.
struct DenseLayer final : torch::nn::Module {
  DenseLayer(std::int64_t in, std::int64_t growth, bool binarise)
      : norm1(register_module("norm1", torch::nn::BatchNorm2d(in))),
        conv1(register_module("conv1", convolution(in, bottleneck * growth, 1, 1, binarise))),
        norm2(register_module("norm2", torch::nn::BatchNorm2d(bottleneck * growth))),
        conv2(register_module("conv2", convolution(bottleneck * growth, growth, 3, 1, binarise))) {}

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
        conv(register_module("conv", convolution(in, in / 2, 1, 1, binarise))) {}

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
    stem_ = features->register_module("conv0", convolution(images.channels, in, large ? 7 : 3, large ? 2 : 1, false));
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

std::string ResnetOptions::problem() const {
  const Shape shape = shape_of(depth);
  if (shape.thin && depth % 6 != 2) return fmt::format("depth is 18, 34, 50, 101, 152 or 6n+2, not {}", depth);
  if (shape.thin && form == "imagenet") return fmt::format("depth {} has no ImageNet form", depth);
  return "";
}

MadeNetwork make_resnet(const ResnetOptions& options, const ImageShape& shape, std::int64_t outputs) {
  const bool large = !shape_of(options.depth).thin && options.for_large(shape, 32);
  return std::make_shared<Resnet>(options, large, shape, outputs);
}

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
