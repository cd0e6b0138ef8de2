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
// w*g*g + (1-w)*c*c enters v, with c = m/(1-beta1^t), and w such that noise counts 1/V of what it does in g*g; w is 0
// while c has more noise than that. ConfigError for a weight decay of adam, which would be a part of g.
std::unique_ptr<Optimiser> make_adam(const AdamOptions& options, const Layout& layout);

struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};
std::unique_ptr<Optimiser> make_adamw(const AdamWOptions& options, const Layout& layout);

}  // namespace sotto
