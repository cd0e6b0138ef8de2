#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/core/options.h"
#include "sotto/optim/adam.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// The tensors of a flat vector, for optimisers whose steps depend on whole tensors.
class Tensors {
 public:
  struct Tensor {
    Range range;  // of the flat vector
    bool vector;  // has at most one dimension: a bias, or the scale of a norm
  };

  explicit Tensors(const Layout& layout);

  // The tensors of the stretch of `size` elements that starts at `begin`. std::logic_error if one is cut, or if the
  // stretch does not end within the flat vector.
  std::span<const Tensor> within(std::size_t begin, std::size_t size) const;

 private:
  std::vector<Tensor> tensors_;
  std::size_t size_;
};

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
