#include <array>
#include <cmath>

#include "app/model/image_network.h"
#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {
namespace {

// Convolutions one after the other, and on large images two hidden layers, named and laid out as torchvision does. On
// small images one linear layer follows the features.
class Stack : public ImageNetwork {
 public:
  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = images;
    for (Feature& feature : features_) {
      x = through(feature.conv, x);
      if (feature.norm) x = through(feature.norm, x);
      x = x.relu_();
      if (feature.pooled > 0) x = at::max_pool2d(x, feature.pooled, 2);
    }
    if (hidden_.empty()) return through(last_, x.mean({2, 3}));
    x = at::adaptive_avg_pool2d(x, {pool_side_, pool_side_}).flatten(1);
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      const auto drop = [&] { return is_training() ? dropout(x, 0.5, random, static_cast<std::uint32_t>(i)) : x; };
      if (drops_inputs_) x = drop();
      x = through(hidden_[i], x).relu_();
      if (!drops_inputs_) x = drop();
    }
    return through(last_, x);
  }

 protected:
  Stack(const ImageOptions& options, bool large, std::int64_t pool_side, bool drops_inputs)
      : ImageNetwork(options, large ? "classifier.6" : "classifier"),
        pool_side_(pool_side),
        drops_inputs_(drops_inputs),
        modules_(register_module("features", std::make_shared<torch::nn::Module>())) {}

  // Adds a convolution. `number`: its index in torchvision's `features`; `pooled`: the side of the pooling after it, or
  // 0.
  void add(int number, const torch::nn::Conv2dOptions& shape, bool normed, std::int64_t pooled) {
    const bool binarise = options().binarise && !features_.empty();
    Feature feature{.conv = modules_->register_module(std::to_string(number), Conv(shape, binarise)), .pooled = pooled};
    if (normed) {
      const auto norm = torch::nn::BatchNorm2d(shape.out_channels());
      feature.norm = modules_->register_module(std::to_string(number + 1), norm);
    }
    features_.push_back(feature);
  }
  // Adds the layers after the features, which have `in` channels. `names`: of the hidden layers.
  void end(std::int64_t in, const std::array<const char*, 2>& names, std::int64_t hidden, std::int64_t outputs) {
    auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    hidden_.push_back(
        classifier->register_module(names[0], Dense(in * pool_side_ * pool_side_, hidden, options().binarise)));
    hidden_.push_back(classifier->register_module(names[1], Dense(hidden, hidden, options().binarise)));
    last_ = classifier->register_module("6", torch::nn::Linear(hidden, outputs));
  }
  void end_small(std::int64_t in, std::int64_t outputs) {
    last_ = register_module("classifier", torch::nn::Linear(in, outputs));
  }

 private:
  struct Feature {  // a convolution, perhaps a norm, a ReLU, and perhaps a pooling
    Conv conv = nullptr;
    torch::nn::BatchNorm2d norm = nullptr;
    std::int64_t pooled = 0;
  };
  std::int64_t pool_side_;  // side of the features that the hidden layers get
  bool drops_inputs_;       // dropout acts on inputs of the hidden layers; otherwise on their outputs
  std::shared_ptr<torch::nn::Module> modules_;
  std::vector<Feature> features_;
  std::vector<Dense> hidden_;
  torch::nn::Linear last_ = nullptr;
};

// AlexNet with one tower (Krizhevsky, 2014). For small images the stem is padded more, and poolings have sides of 2.
class Alexnet final : public Stack {
 public:
  Alexnet(const FormOptions& options, bool large, const ImageShape& images, std::int64_t outputs)
      : Stack(options, large, 6, /*drops_inputs=*/true) {
    const auto conv = [&](int number, std::int64_t in, std::int64_t out, std::int64_t kernel, bool pooled) {
      auto shape = torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2);
      if (number == 0) shape.stride(4).padding(large ? 2 : 5);
      add(number, shape, false, !pooled ? 0 : large ? 3 : 2);
    };
    conv(0, images.channels, 64, 11, true);
    conv(3, 64, 192, 5, true);
    conv(6, 192, 384, 3, false);
    conv(8, 384, 256, 3, false);
    conv(10, 256, 256, 3, true);
    if (large) {
      end(256, {"1", "4"}, 4096, outputs);
    } else {
      end_small(256, outputs);
    }
  }
};

constexpr std::int64_t pool = 0;

// The channels of each convolution, and where the poolings are.
std::vector<std::int64_t> plan_of(std::int64_t depth) {
  switch (depth) {
    case 11: return {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool};
    case 13: return {64, 64, pool, 128, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool};
    case 16: return {64, 64, pool, 128, 128, pool, 256, 256, 256, pool, 512, 512, 512, pool, 512, 512, 512, pool};
    default:
      return {64,  64,  pool, 128, 128,  pool, 256, 256, 256, 256, pool,
              512, 512, 512,  512, pool, 512,  512, 512, 512, pool};
  }
}

// VGG (Simonyan, Zisserman, ICLR 2015).
class Vgg final : public Stack {
 public:
  Vgg(const VggOptions& options, bool large, const ImageShape& images, std::int64_t outputs)
      : Stack(options, large, 7, /*drops_inputs=*/false) {
    const auto widened = [&](std::int64_t channels) {
      return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * options.width));
    };
    std::int64_t in = images.channels;
    int number = 0;  // index in torchvision's `features`, which counts convolutions, norms, ReLUs and poolings
    const std::vector<std::int64_t> plan = plan_of(options.depth);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const std::int64_t out = widened(plan[i]);
      const bool pooled = plan[i + 1] == pool;
      add(number, torch::nn::Conv2dOptions(in, out, 3).padding(1), options.norm, pooled ? 2 : 0);
      number += (options.norm ? 3 : 2) + int{pooled};
      i += pooled;
      in = out;
    }
    if (large) {
      end(in, {"0", "3"}, widened(4096), outputs);
    } else {
      end_small(in, outputs);
    }
  }

 protected:
  InitialWeight usual(std::string_view /*layer*/, const at::Tensor& weight) const override {
    return InitialWeight::normal(weight.dim() == 4 ? std::sqrt(2 / fan_out(weight)) : 0.01);
  }
};

}  // namespace

MadeNetwork make_alexnet(const AlexnetOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Alexnet>(options, options.for_large(shape, 63), shape, outputs);
}

MadeNetwork make_vgg(const VggOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Vgg>(options, options.for_large(shape, 32), shape, outputs);
}

}  // namespace sotto
