#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

// The convolutional network of the TensorFlow tutorials, a common benchmark for sparsification.
class MnistCnn final : public ImageNetwork {
 public:
  MnistCnn(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs)
      : ImageNetwork(options, "fc2"),
        conv1_(register_module("conv1", same_size(shape.channels, 32, false))),
        conv2_(register_module("conv2", same_size(32, 64, options.binarise))),
        fc1_(register_module("fc1", Dense(64 * (shape.height / 4) * (shape.width / 4), 1024, options.binarise))),
        fc2_(register_module("fc2", torch::nn::Linear(1024, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = at::max_pool2d(through(conv1_, images).relu_(), 2);
    x = at::max_pool2d(through(conv2_, x).relu_(), 2);
    x = through(fc1_, x.flatten(1)).relu_();
    return through(fc2_, is_training() ? dropout(x, 0.4, random) : x);
  }

 private:
  static Conv same_size(std::int64_t in, std::int64_t out, bool binarise) {
    return Conv(torch::nn::Conv2dOptions(in, out, 5).padding(2), binarise);
  }

  Conv conv1_, conv2_;
  Dense fc1_;
  torch::nn::Linear fc2_;
};

}  // namespace

MadeNetwork make_mnist_cnn(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<MnistCnn>(options, shape, outputs);
}

}  // namespace sotto
