#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// The options of optimisers that keep moments: running means of gradients and of their squares.
struct MomentOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("beta1", beta1, "decay of the running mean of gradients", {0, 1, false, true});
    v.option("beta2", beta2, "decay of the running mean of their squares", {0, 1, false, true});
    v.option("eps", eps, "added to the root of the mean of squares", Bounds{1e-30, 1});
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
  }
};

struct AdamOptions : MomentOptions {
  bool amsgrad = false;
  void visit(OptionVisitor& v) {
    MomentOptions::visit(v);
    v.option("amsgrad", amsgrad, "divide by the largest mean of squares so far");
  }
};

// Computes the same as torch.optim.Adam. Step t = 1, 2, .. with the averaged gradient g:
//   m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g*g
//   p -= lr * m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps)
// Weight decay: Adam adds weight_decay*p to g (Kingma, Ba, ICLR 2015); AdamW first computes p *= 1 - lr*weight_decay
// (Loshchilov, Hutter, ICLR 2019). With amsgrad the largest v so far replaces v (Reddi, Kale, Kumar, ICLR 2018).
//
// With asynchronous servers (take_shares()) each of V workers makes the directions of its gradients, in offer(), and
// servers only step: p -= lr/V * d. The direction is NAdam's (Dozat, ICLR workshop 2016), as in DANA-Slim (sgd.h):
//   d = (beta1*m/(1-beta1^(t+1)) + (1-beta1)*g/(1-beta1^t)) / (sqrt(v/(1-beta2^t)) + eps)
// The square of one worker's gradient has V times the noise of the mean's square, so steps would be smaller. Therefore
// w*g*g + (1-w)*c*c enters v, with c = m/(1-beta1^t). w is such that noise adds 1/V of what it adds to g*g. While c*c
// alone has more noise than that, w is 0. ConfigError for a weight decay of adam, which would be a part of g.
std::unique_ptr<Optimiser> make_adam(const AdamOptions& options, const Layout& layout);

struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};
std::unique_ptr<Optimiser> make_adamw(const AdamWOptions& options, const Layout& layout);

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

struct AdagradOptions {
  double lr_decay = 0;
  double start = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  void visit(OptionVisitor& v) {
    v.option("lr-decay", lr_decay, "divides the rate by 1 + lr-decay * (steps made)", Bounds::at_least(0));
    v.option("start", start, "what the sum of squares starts with", Bounds::at_least(0));
    v.option("eps", eps, "added to the root of the sum of squares", Bounds{1e-30, 1});
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
  }
};

// Computes the same as torch.optim.Adagrad (Duchi, Hazan, Singer, JMLR 2011). After n steps, with the averaged gradient
// g:  d = g + weight_decay*p; s += d*d; p -= lr / (1 + n*lr_decay) * d / (sqrt(s) + eps)
std::unique_ptr<Optimiser> make_adagrad(const AdagradOptions& options, const Layout& layout);

}  // namespace sotto
