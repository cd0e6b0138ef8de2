#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct OneBitAdamOptions {
  std::int64_t warmup = 100;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-4;
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("warmup", warmup, "steps of plain Adam, whose gradients go without loss; 15 to 20 % of all are usual",
             Bounds{1, 1e9});
    v.option("beta1", beta1, "share of the mean of gradients that is kept", {0, 1, false, true});
    v.option("beta2", beta2, "share of the mean of their squares that is kept", {0, 1, false, true});
    v.option("eps", eps, "added to the root of that mean", Bounds{1e-30, 1});
    v.option("weight-decay", weight_decay, "pull of the parameters towards zero", Bounds::at_least(0));
  }
};

// 1-bit Adam (Tang et al., ICML 2021). The first `warmup` steps are Adam's (adam.h, the decay decoupled), on gradients
// that are exchanged without loss. Then the variance stays as it is, and momenta are exchanged in place of gradients;
// m is the mean of all ranks' after each step:
//   offered: beta1*m + (1-beta1)*g; with m what came back:
//   p *= 1 - lr*weight_decay; p -= lr * m/(1-beta1^t) / (sqrt(v/(1-beta2^warmup)) + eps)
// A codec of one bit gives every momentum of a block the same size, also where gradients are far smaller than in the
// rest of it: over the root of their variance that is a huge step, unless eps is not much smaller than such roots
// usually are. Adam's 1e-8 ends LeNet within five steps. Coordinates whose gradient was always zero until then stay
// where they are: they have no variance, and a codec of one bit would send a momentum for them all the same.
std::unique_ptr<Optimiser> make_onebit_adam(const OneBitAdamOptions& options, std::size_t parameters);

}  // namespace sotto
