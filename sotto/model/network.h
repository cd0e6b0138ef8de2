#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace sotto {

// Base class of all networks: a torch module from images to outputs. FlatModel moves its parameters and float buffers
// into flat vectors, so a network may neither replace a parameter nor keep pointers into one. Networks call layers that
// have parameters as through(layer, x) (through.h).
class Network : public torch::nn::Module {
 public:
  // (count, channels, height, width) -> (count, outputs). `images` is borrowed and must not be written to. Random
  // numbers, if any, are a pure function of `random`: torch's own generator is shared by everything in the process.
  virtual at::Tensor forward(const at::Tensor& images, std::uint64_t random) = 0;

  // Initial weights are uniform in [-bound, bound). The default bound is torch's: 1/sqrt(fan_in). A ResNet has its own.
  virtual double weight_bound(const at::Tensor& weight) const;
};

// Draws every weight of two or more dimensions, and the bias of its layer (uniform within 1/sqrt(fan_in)), from `seed`
// alone, the same on every machine. Other parameters keep their values: 1 and 0 in a batch norm.
void initialise(Network& network, std::uint64_t seed);

// Sets a share of the elements to zero, and scales the others by 1/(1 - share).
at::Tensor dropout(const at::Tensor& input, double share, std::uint64_t random);

}  // namespace sotto
