#pragma once

#include <memory>

#include "sotto/optim/adam.h"

namespace sotto {

struct LambOptions : MomentOptions {
  LambOptions() : MomentOptions{.eps = 1e-6} {}
  bool bias_correction = true;
  bool adapt_vectors = false;
  void visit(OptionVisitor& v) {
    MomentOptions::visit(v);
    v.option("bias-correction", bias_correction, "correct running means for their start at 0");
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
