#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sotto/core/options.h"
#include "sotto/core/state.h"

namespace sotto {

// Turns averaged vectors into a step of the parameters. Works on flat vectors; padding stays zero.
class Optimiser {
 public:
  virtual ~Optimiser() = default;
  // What this rank offers to be exchanged, out of its gradient: the gradient itself, unless the method exchanges
  // something else (1-bit Adam its momentum). Called once a step and bucket, before the exchange; `begin` is the
  // bucket's place in the flat vector.
  virtual std::span<float> outgoing(std::span<float> gradient, std::size_t /*begin*/) { return gradient; }
  // parameters -= lr * direction(mean), for a stretch of the flat vectors that starts at `begin`.
  virtual void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double lr) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
};

// SGD as torch.optim.SGD computes it: d = g + weight_decay*p; v = momentum*v + d; p -= lr * (nesterov ? d + momentum*v
// : v).
struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("momentum", momentum, "share of the last step's direction that is kept", {0, 1, false, true});
    v.option("nesterov", nesterov, "look one step ahead");
    v.option("weight-decay", weight_decay, "pull of the parameters towards zero", Bounds::at_least(0));
  }
};
std::unique_ptr<Optimiser> make_sgd(const SgdOptions& options, std::size_t parameters);

}  // namespace sotto
