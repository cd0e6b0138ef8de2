#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct SignumOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("momentum", momentum, "decay of the running mean of gradients; 0: signSGD", {0, 1, false, true});
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
  }
};

// Signum (Bernstein et al., ICML 2018): each rank offers the signs of its momentum, as -1, 0 or 1.
//   m = momentum*m + (1-momentum)*g; the exchange turns sign(m) into s; p -= lr * (s + weight_decay*p)
// With the aggregator `vote`, s is the majority of the signs; with a lossless codec and aggregator it is their mean.
std::unique_ptr<Optimiser> make_signum(const SignumOptions& options, const Layout& layout);

struct SignStepOptions {
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
  }
};

// The step of DeMo (Peng, Quesnelle, Kingma, 2024): the sign of the exchanged mean g. The momentum of this method is
// kept and sent by the memory `demo`, not here.
//   p *= 1 - lr*weight_decay; p -= lr * sign(g)
std::unique_ptr<Optimiser> make_sign_step(const SignStepOptions& options, const Layout& layout);

}  // namespace sotto
