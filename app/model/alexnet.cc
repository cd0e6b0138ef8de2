#include <array>
#include <vector>

#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

struct Convolution {
  const char* name;  // as torchvision numbers it
  std::int64_t out, kernel, stride, padding;
  bool pooled;  // a pooling follows
};

constexpr std::array large_form{Convolution{"0", 64, 11, 4, 2, true}, Convolution{"3", 192, 5, 1, 2, true},
                                Convolution{"6", 384, 3, 1, 1, false}, Convolution{"8", 256, 3, 1, 1, false},
                                Convolution{"10", 256, 3, 1, 1, true}};
constexpr std::array small_form{Convolution{"0", 64, 11, 4, 5, true}, Convolution{"3", 192, 5, 1, 2, true},
                                Convolution{"6", 384, 3, 1, 1, false}, Convolution{"8", 256, 3, 1, 1, false},
                                Convolution{"10", 256, 3, 1, 1, true}};

// AlexNet with one tower (Krizhevsky, 2014), named and laid out as torchvision does. For small images the stem is
// padded more, poolings have sides of 2, and one linear layer follows the features.
class Alexnet final : public ImageNetwork {
 public:
  Alexnet(const FormOptions& options, bool large, const ImageShape& images, std::int64_t outputs)
      : ImageNetwork(options, large ? "classifier.6" : "classifier"), plan_(large ? large_form : small_form) {
    auto features = register_module("features", std::make_shared<torch::nn::Module>());
    std::int64_t in = images.channels;
    for (const Convolution& c : plan_) {
      const auto shape = torch::nn::Conv2dOptions(in, c.out, c.kernel).stride(c.stride).padding(c.padding);
      convs_.push_back(features->register_module(c.name, Conv(shape, options.binarise && in != images.channels)));
      in = c.out;
    }
    if (!large) {
      last_ = register_module("classifier", torch::nn::Linear(in, outputs));
      return;
    }
    auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    hidden_.push_back(classifier->register_module("1", Dense(in * 6 * 6, 4096, options.binarise)));
    hidden_.push_back(classifier->register_module("4", Dense(4096, 4096, options.binarise)));
    last_ = classifier->register_module("6", torch::nn::Linear(4096, outputs));
  }

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = images;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      x = through(convs_[i], x).relu_();
      if (plan_[i].pooled) x = hidden_.empty() ? at::max_pool2d(x, 2) : at::max_pool2d(x, 3, 2);
    }
    if (hidden_.empty()) return through(last_, x.mean({2, 3}));
    x = at::adaptive_avg_pool2d(x, {6, 6}).flatten(1);
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      if (is_training()) x = dropout(x, 0.5, random, static_cast<std::uint32_t>(i));
      x = through(hidden_[i], x).relu_();
    }
    return through(last_, x);
  }

 private:
  std::array<Convolution, 5> plan_;
  std::vector<Conv> convs_;
  std::vector<Dense> hidden_;
  torch::nn::Linear last_ = nullptr;
};

}  // namespace

MadeNetwork make_alexnet(const AlexnetOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Alexnet>(options, options.for_large(shape, 63), shape, outputs);
}

}  // namespace sotto
