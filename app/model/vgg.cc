
#include <cmath>
#include <vector>

#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

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

// VGG (Simonyan, Zisserman, ICLR 2015), named and laid out as torchvision does. For small images one linear layer
// follows the features.
class Vgg final : public ImageNetwork {
 public:
  Vgg(const VggOptions& options, bool large, const ImageShape& images, std::int64_t outputs)
      : ImageNetwork(options, large ? "classifier.6" : "classifier") {
    const auto widened = [&](std::int64_t channels) {
      return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * options.width));
    };
    auto features = register_module("features", std::make_shared<torch::nn::Module>());
    std::int64_t in = images.channels;
    int number = 0;  // of a layer among those that torchvision counts: convolution, norm, ReLU, pooling
    for (const std::int64_t channels : plan_of(options.depth)) {
      if (channels == pool) {
        features_.push_back({});
        ++number;
        continue;
      }
      const std::int64_t out = widened(channels);
      const auto shape = torch::nn::Conv2dOptions(in, out, 3).padding(1);
      Feature feature;
      feature.conv = features->register_module(std::to_string(number), Conv(shape, options.binarise && number > 0));
      if (options.norm) {
        feature.norm = features->register_module(std::to_string(number + 1), torch::nn::BatchNorm2d(out));
      }
      number += options.norm ? 3 : 2;
      features_.push_back(feature);
      in = out;
    }
    if (!large) {
      last_ = register_module("classifier", torch::nn::Linear(in, outputs));
      return;
    }
    const std::int64_t hidden = widened(4096);
    auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    hidden_.push_back(classifier->register_module("0", Dense(in * 7 * 7, hidden, options.binarise)));
    hidden_.push_back(classifier->register_module("3", Dense(hidden, hidden, options.binarise)));
    last_ = classifier->register_module("6", torch::nn::Linear(hidden, outputs));
  }

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = images;
    for (Feature& feature : features_) {
      if (!feature.conv) {
        x = at::max_pool2d(x, 2);
        continue;
      }
      x = through(feature.conv, x);
      if (feature.norm) x = through(feature.norm, x);
      x = x.relu_();
    }
    x = hidden_.empty() ? x.mean({2, 3}) : at::adaptive_avg_pool2d(x, {7, 7}).flatten(1);
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      x = through(hidden_[i], x).relu_();
      if (is_training()) x = dropout(x, 0.5, random, static_cast<std::uint32_t>(i));
    }
    return through(last_, x);
  }

 protected:
  InitialWeight usual(std::string_view /*layer*/, const at::Tensor& weight) const override {
    return InitialWeight::normal(weight.dim() == 4 ? std::sqrt(2 / fan_out(weight)) : 0.01);
  }

 private:
  struct Feature {  // a convolution, perhaps a norm, and a ReLU; or a pooling
    Conv conv = nullptr;
    torch::nn::BatchNorm2d norm = nullptr;
  };
  std::vector<Feature> features_;
  std::vector<Dense> hidden_;
  torch::nn::Linear last_ = nullptr;
};

}  // namespace

MadeNetwork make_vgg(const VggOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Vgg>(options, options.for_large(shape, 32), shape, outputs);
}

}  // namespace sotto
