#include "app/model/image_networks.h"
#include "app/model/layers.h"
#include "app/model/through.h"

namespace sotto {
namespace {

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

}  // namespace

MadeNetwork make_fully_connected(const HiddenOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<FullyConnected>(options, shape, outputs);
}

}  // namespace sotto
