#include <torch/nn/modules/linear.h>

#include "app/model/image_networks.h"
#include "app/model/through.h"

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

}  // namespace

MadeNetwork make_logreg(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<LogisticRegression>(options, shape, outputs);
}

}  // namespace sotto
