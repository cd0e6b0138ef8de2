#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

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
