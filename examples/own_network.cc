// A user's own network: sotto train --model build/examples/own_network.so, or
// "build/examples/own_network.so(width=64)".
#include <torch/nn.h>

#include "sotto/app/model/own_network.h"

sotto::OwnNetwork make_network(sotto::NetworkRequest& wanted) {
  const std::int64_t width = wanted.count("width", 16);
  const auto convolution = [](std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  };
  const std::int64_t pixels = (wanted.height() / 4) * (wanted.width() / 4);
  torch::nn::Sequential layers(convolution(wanted.channels(), width), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                               convolution(width, 2 * width), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                               torch::nn::Flatten(), torch::nn::Dropout(0.1),
                               torch::nn::Linear(2 * width * pixels, wanted.outputs()));
  return layers;
}
SOTTO_NETWORK(make_network)
