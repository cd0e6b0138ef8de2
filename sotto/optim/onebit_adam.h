#pragma once

#include <memory>

#include "sotto/optim/adam.h"

namespace sotto {

struct OneBitAdamOptions : MomentOptions {
  OneBitAdamOptions() : MomentOptions{.eps = 1e-4} {}
  std::int64_t warmup = 100;
  void visit(OptionVisitor& v) {
    v.option("warmup", warmup, "first steps, of plain Adam with lossless gradients; usually 15 to 20 % of all steps",
             Bounds{1, 1e9});
    MomentOptions::visit(v);
  }
};

// 1-bit Adam (Tang et al., ICML 2021). The first `warmup` steps are AdamW steps (adam.h), on gradients that are
// exchanged without loss. After them the variance v is frozen, and ranks exchange momenta in place of gradients:
//   each rank offers beta1*m + (1-beta1)*g; the mean over ranks becomes the new m of all ranks; then
//   p *= 1 - lr*weight_decay; p -= lr * m/(1-beta1^t) / (sqrt(v/(1-beta2^warmup)) + eps)
// A one-bit codec gives all momenta of a block the same magnitude, so coordinates with small gradients get momenta that
// are far too large. Divided by their small sqrt(v) these are huge steps, unless eps is about as large as usual values
// of sqrt(v): with Adam's 1e-8 LeNet diverges within five steps. Where v is zero (the gradient was zero in all warm-up
// steps) the momentum is set to zero, since a one-bit codec would send one for these coordinates, too.
std::unique_ptr<Optimiser> make_onebit_adam(const OneBitAdamOptions& options, const Layout& layout);

}  // namespace sotto
