#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "sotto/model/models.h"
#include "sotto/model/through.h"

namespace sotto {
namespace {

// The convolutional network of the TensorFlow tutorials, a common benchmark for sparsification.
class MnistCnn final : public Network {
 public:
  MnistCnn(const ImageShape& shape, std::int64_t outputs)
      : conv1_(register_module("conv1", same_size(shape.channels, 32))),
        conv2_(register_module("conv2", same_size(32, 64))),
        fc1_(register_module("fc1", torch::nn::Linear(64 * (shape.height / 4) * (shape.width / 4), 1024))),
        fc2_(register_module("fc2", torch::nn::Linear(1024, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = at::max_pool2d(through(conv1_, images).relu_(), 2);
    x = at::max_pool2d(through(conv2_, x).relu_(), 2);
    x = through(fc1_, x.flatten(1)).relu_();
    return through(fc2_, is_training() ? dropout(x, 0.4, random) : x);
  }

 private:
  static torch::nn::Conv2d same_size(std::int64_t in, std::int64_t out) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(2));
  }

  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace

std::shared_ptr<Network> build_mnist_cnn(const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<MnistCnn>(shape, outputs);
}

}  // namespace sotto
