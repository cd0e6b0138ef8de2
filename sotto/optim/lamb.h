#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  bool bias_correction = true;
  bool adapt_vectors = false;
  void visit(OptionVisitor& v) {
    v.option("beta1", beta1, "decay of the running mean of gradients", {0, 1, false, true});
    v.option("beta2", beta2, "decay of the running mean of their squares", {0, 1, false, true});
    v.option("eps", eps, "added to the root of the mean of squares", Bounds{1e-30, 1});
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
    v.option("bias-correction", bias_correction, "divide running means by the weight of what entered them");
    v.option("adapt-vectors", adapt_vectors,
             "tensors of one dimension, such as biases and norms, have a trust ratio and weight decay, too");
  }
};

// LAMB (You et al., ICLR 2020). In step t = 1, 2, .., for each tensor p with its averaged gradient g:
//   m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g*g
//   u = m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps) + weight_decay*p;  p -= lr * |p|/|u| * u
// |p|/|u| is 1 if either is 0. Without `bias_correction` m and v are not divided. Unless `adapt_vectors`, tensors of
// one dimension have a ratio of 1 and no weight decay.
std::unique_ptr<Optimiser> make_lamb(const LambOptions& options, const Layout& layout);

}  // namespace sotto
