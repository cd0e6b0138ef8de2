#include <torch/nn/modules/linear.h>

#include "app/model/image_network.h"
#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {
namespace {

class LogisticRegression final : public ImageNetwork {
 public:
  LogisticRegression(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs)
      : ImageNetwork(options, "linear"),
        linear_(register_module("linear", torch::nn::Linear(static_cast<std::int64_t>(shape.size()), outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    return through(linear_, images.flatten(1));
  }

 private:
  torch::nn::Linear linear_;
};

// A multi-layer perceptron with two hidden layers.
class FullyConnected final : public ImageNetwork {
 public:
  FullyConnected(const HiddenOptions& options, const ImageShape& shape, std::int64_t outputs)
      : ImageNetwork(options, "fc3"),
        fc1_(register_module("fc1", torch::nn::Linear(static_cast<std::int64_t>(shape.size()), options.hidden1))),
        fc2_(register_module("fc2", Dense(options.hidden1, options.hidden2, options.binarise))),
        fc3_(register_module("fc3", torch::nn::Linear(options.hidden2, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    const at::Tensor x = through(fc1_, images.flatten(1)).relu_();
    return through(fc3_, through(fc2_, x).relu_());
  }

 private:
  torch::nn::Linear fc1_;
  Dense fc2_;
  torch::nn::Linear fc3_;
};

// Two convolutions of 5x5, each with a pooling, and two dense layers.
struct Sizes {
  std::int64_t first, second, hidden;  // outputs of both convolutions, and of the first dense layer
  std::int64_t padding;
  double dropout;  // of the last layer's inputs
};
// LeNet in Caffe's sizes (LeCun et al. 1998 with max-pooling), with a ReLU after every layer but the last. Without the
// ReLUs after the convolutions, as Caffe has it, it is barely stable at its default rate, and diverges with `ef |
// topk(0.01)`.
constexpr Sizes lenet{20, 50, 500, 0, 0};
// The convolutional network of the TensorFlow tutorials, a common benchmark for sparsification.
constexpr Sizes mnist_cnn{32, 64, 1024, 2, 0.4};

class TwoConvolutions final : public ImageNetwork {
 public:
  TwoConvolutions(const ImageOptions& options, const Sizes& sizes, const ImageShape& shape, std::int64_t outputs)
      : ImageNetwork(options, "fc2"),
        dropout_(sizes.dropout),
        conv1_(register_module("conv1", convolution(shape.channels, sizes.first, sizes.padding, false))),
        conv2_(register_module("conv2", convolution(sizes.first, sizes.second, sizes.padding, options.binarise))) {
    const auto side = [&](std::int64_t pixels) {
      for (int layer = 0; layer < 2; ++layer) pixels = (pixels - 4 + 2 * sizes.padding) / 2;
      return pixels;
    };
    const std::int64_t features = sizes.second * side(shape.height) * side(shape.width);
    fc1_ = register_module("fc1", Dense(features, sizes.hidden, options.binarise));
    fc2_ = register_module("fc2", torch::nn::Linear(sizes.hidden, outputs));
  }

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    at::Tensor x = at::max_pool2d(through(conv1_, images), 2).relu_();
    x = at::max_pool2d(through(conv2_, x), 2).relu_();
    x = through(fc1_, x.flatten(1)).relu_();
    return through(fc2_, is_training() && dropout_ > 0 ? dropout(x, dropout_, random) : x);
  }

 private:
  static Conv convolution(std::int64_t in, std::int64_t out, std::int64_t padding, bool binarise) {
    return Conv(torch::nn::Conv2dOptions(in, out, 5).padding(padding), binarise);
  }

  double dropout_;
  Conv conv1_, conv2_;
  Dense fc1_ = nullptr;
  torch::nn::Linear fc2_ = nullptr;
};

}  // namespace

MadeNetwork make_logreg(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<LogisticRegression>(options, shape, outputs);
}

MadeNetwork make_fully_connected(const HiddenOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<FullyConnected>(options, shape, outputs);
}

MadeNetwork make_mnist_cnn(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<TwoConvolutions>(options, mnist_cnn, shape, outputs);
}

MadeNetwork make_lenet(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<TwoConvolutions>(options, lenet, shape, outputs);
}

}  // namespace sotto
