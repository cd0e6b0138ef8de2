#include <torch/nn/modules/linear.h>

#include "sotto/model/models.h"
#include "sotto/model/through.h"

namespace sotto {
namespace {

// A multi-layer perceptron with two hidden layers.
class FullyConnected final : public Network {
 public:
  FullyConnected(const ImageShape& shape, std::int64_t first, std::int64_t second, std::int64_t outputs)
      : fc1_(register_module("fc1", torch::nn::Linear(static_cast<std::int64_t>(shape.size()), first))),
        fc2_(register_module("fc2", torch::nn::Linear(first, second))),
        fc3_(register_module("fc3", torch::nn::Linear(second, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    const at::Tensor x = through(fc1_, images.flatten(1)).relu_();
    return through(fc3_, through(fc2_, x).relu_());
  }

 private:
  torch::nn::Linear fc1_, fc2_, fc3_;
};

}  // namespace

std::shared_ptr<Network> build_fc(const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<FullyConnected>(shape, 800, 500, outputs);
}

std::shared_ptr<Network> build_mlp(const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<FullyConnected>(shape, 3232, 3232, outputs);
}

}  // namespace sotto
