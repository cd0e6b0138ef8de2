// A library for library_test.cc. The option `what` chooses its network.
#include <torch/nn.h>

#include "app/model/own_network.h"

namespace {

struct Net final : torch::nn::Module {
  explicit Net(sotto::NetworkRequest& wanted)
      : first(register_module("first", torch::nn::Linear(wanted.channels() * wanted.height() * wanted.width(),
                                                         wanted.count("hidden", 8)))),
        drop(register_module("drop", torch::nn::Dropout(wanted.number("dropout", 0.5)))),
        last(register_module("last", torch::nn::Linear(wanted.count("hidden", 8), wanted.outputs()))) {
    mean = register_buffer("mean", torch::zeros({3}));
  }
  at::Tensor run(const at::Tensor& images) {
    if (is_training()) mean += 1;
    return last(drop(first(images.view({images.size(0), -1}))));
  }
  torch::nn::Linear first;
  torch::nn::Dropout drop;
  torch::nn::Linear last;
  at::Tensor mean;
};

sotto::OwnNetwork make_any(sotto::NetworkRequest& wanted) {
  const std::string what = wanted.text("what", "good");
  if (what == "throw") throw std::runtime_error("no such luck");
  if (what == "throw-int") throw 7;
  if (what == "throw-torch") TORCH_CHECK(false, "torch says no");
  if (what == "nothing") return {nullptr, nullptr};
  const auto net = std::make_shared<Net>(wanted);
  if (what == "empty") return {std::make_shared<torch::nn::Flatten>()->ptr(), [](const at::Tensor& x) { return x; }};
  if (what == "frozen") net->first->weight.requires_grad_(false);
  if (what == "double") net->to(at::kDouble);
  if (what == "shared") net->last->register_parameter("again", net->first->bias);
  return {net, [net, what](const at::Tensor& images) {
            if (what == "bad-forward") return net->last(images);
            if (what == "wide") return at::cat({net->run(images), net->run(images)}, 1);
            if (what == "undefined") return at::Tensor();
            return net->run(images);
          }};
}

}  // namespace

SOTTO_NETWORK(make_any)
