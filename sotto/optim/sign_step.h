#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

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
