#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct LarsOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  double trust = 0.001;
  double eps = 1e-8;
  bool adapt_vectors = false;
  void visit(OptionVisitor& v) {
    v.option("momentum", momentum, "share of the previous step that is kept", {0, 1, false, true});
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
    v.option("trust", trust, "length of a step, as a share of the tensor's, at a learning rate of 1",
             Bounds::positive());
    v.option("eps", eps, "added to the length of the gradient", Bounds::at_least(0));
    v.option("adapt-vectors", adapt_vectors,
             "tensors of one dimension, such as biases and norms, have a trust ratio and weight decay, too");
  }
};

// LARS (You, Gitman, Ginsburg, 2017). Each tensor p, with its averaged gradient g, has its own learning rate:
//   r = trust * |p| / (|g| + weight_decay * |p| + eps);  v = momentum*v + lr * r * (g + weight_decay*p);  p -= v
// r is 1 if |p| or |g| is 0. Unless `adapt_vectors`, tensors of one dimension have r = 1 and no weight decay.
std::unique_ptr<Optimiser> make_lars(const LarsOptions& options, const Layout& layout);

}  // namespace sotto
