#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

// LeNet in Caffe's sizes (LeCun et al. 1998 with max-pooling), with a ReLU after every layer but the last. Without the
// ReLUs after the convolutions, as Caffe has it, it is barely stable at its default rate, and diverges with `ef |
// topk(0.01)`.
class Lenet final : public ImageNetwork {
 public:
  Lenet(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs)
      : ImageNetwork(options, "fc2"),
        conv1_(register_module("conv1", torch::nn::Conv2d(shape.channels, 20, 5))),
        conv2_(register_module("conv2", Conv(torch::nn::Conv2dOptions(20, 50, 5), options.binarise))),
        fc1_(register_module("fc1", Dense(50 * side(shape.height) * side(shape.width), 500, options.binarise))),
        fc2_(register_module("fc2", torch::nn::Linear(500, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    at::Tensor x = at::max_pool2d(through(conv1_, images), 2).relu_();
    x = at::max_pool2d(through(conv2_, x), 2).relu_();
    return through(fc2_, through(fc1_, x.flatten(1)).relu_());
  }

 private:
  // The side of an image after two valid 5x5 convolutions and two poolings by 2.
  static std::int64_t side(std::int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; }

  torch::nn::Conv2d conv1_;
  Conv conv2_;
  Dense fc1_;
  torch::nn::Linear fc2_;
};

}  // namespace

MadeNetwork make_lenet(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Lenet>(options, shape, outputs);
}

}  // namespace sotto
