#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "sotto/core/options.h"

namespace sotto {

// The distribution from which the initial elements of a weight are drawn.
struct InitialWeight {
  enum class Distribution : std::uint8_t { uniform, normal };
  Distribution distribution = Distribution::uniform;
  double size = 0;         // uniform in [-size, size), or the standard deviation
  bool zero_bias = false;  // the layer's bias is 0; otherwise it is uniform within 1/sqrt(fan_in)

  static InitialWeight uniform(double bound, bool zero_bias = false);
  static InitialWeight normal(double deviation, bool zero_bias = true);
};

// Base class of all networks: a torch module whose parameters and float buffers FlatModule moves into flat vectors.
// Therefore a network may neither replace a parameter nor keep pointers into one. Networks call layers that have
// parameters as through(layer, x). Random numbers, if any, are a pure function of an argument, and not torch's, since
// everything in the process shares its generator.
class Network : public torch::nn::Module {
 public:
  // How the weight of this layer is drawn. By default as in torch: uniform within 1/sqrt(fan_in).
  virtual InitialWeight initial(std::string_view layer, const at::Tensor& weight) const;
};

// Draws every weight of two or more dimensions, and the bias of its layer, from `seed` alone, the same on every
// machine. Other parameters keep their values: 1 and 0 in a norm.
void initialise(Network& network, std::uint64_t seed);

// Seeds torch's own generator, for a user's own network, which draws from it.
void seed_torch(std::uint64_t seed);

// The number of inputs, or outputs, that each element of a linear layer's or convolution's weight has.
double fan_in(const at::Tensor& weight);
double fan_out(const at::Tensor& weight);

// Sets a share of the elements to zero, and scales the others by 1/(1 - share). The mask is a pure function of `random`
// and `layer`; each dropout of a network has its own `layer`.
at::Tensor dropout(const at::Tensor& input, double share, std::uint64_t random, std::uint32_t layer = 0);

// The dropouts of one forward pass, each with its own number.
struct Dropouts {
  double share;
  std::uint64_t random;
  std::uint32_t used = 0;
  at::Tensor operator()(const at::Tensor& x) { return share > 0 ? dropout(x, share, random, used++) : x; }
};

// While it lives, `announce` is called for every through() of this thread. An inner scope replaces the outer one.
class NeedScope {
 public:
  using Announce = std::function<void(const torch::nn::Module& module)>;
  explicit NeedScope(Announce announce);
  ~NeedScope();
  NeedScope(const NeedScope&) = delete;
  NeedScope& operator=(const NeedScope&) = delete;

 private:
  friend void announce(const torch::nn::Module& module);
  Announce announce_;
  const NeedScope* around_;
};

// Tells this thread's NeedScope, if there is one, that the module's own parameters are about to be read.
void announce(const torch::nn::Module& module);

// Networks call modules with parameters through this function. The parameters may still be on their way when forward
// begins; announce() waits for them. In nested calls C++ computes `input` first, so modules are announced in the order
// of use.
template <typename Holder>
at::Tensor through(Holder& module, const at::Tensor& input) {
  announce(*module);
  return module->forward(input);
}

}  // namespace sotto
