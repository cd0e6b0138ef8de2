#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "sotto/model/models.h"
#include "sotto/model/through.h"

namespace sotto {
namespace {

// LeNet in Caffe's sizes (LeCun et al. 1998 with max-pooling), with a ReLU after every layer but the last. Without the
// ReLUs after the convolutions it is barely stable at its default rate, and diverges with `ef | topk(0.01)`.
class Lenet final : public Network {
 public:
  Lenet(const ImageShape& shape, std::int64_t outputs)
      : conv1_(register_module("conv1", torch::nn::Conv2d(shape.channels, 20, 5))),
        conv2_(register_module("conv2", torch::nn::Conv2d(20, 50, 5))),
        fc1_(register_module("fc1", torch::nn::Linear(50 * side(shape.height) * side(shape.width), 500))),
        fc2_(register_module("fc2", torch::nn::Linear(500, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    at::Tensor x = at::max_pool2d(through(conv1_, images), 2).relu_();
    x = at::max_pool2d(through(conv2_, x), 2).relu_();
    return through(fc2_, through(fc1_, x.flatten(1)).relu_());
  }

 private:
  // The side of an image after two valid 5x5 convolutions and two poolings by 2.
  static std::int64_t side(std::int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; }

  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace

std::shared_ptr<Network> build_lenet(const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Lenet>(shape, outputs);
}

}  // namespace sotto
