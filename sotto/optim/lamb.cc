#include "sotto/optim/lamb.h"

#include <cmath>
#include <vector>

#include "sotto/kernels/reduce.h"
#include "sotto/optim/stretch.h"
#include "sotto/optim/tensors.h"

namespace sotto {
namespace {

// |p| / |update|, or 1 if either is zero.
double ratio_of_lengths(std::span<const float> p, std::span<const float> update) {
  const double parameters = std::sqrt(kernels::sum_squares(p)), length = std::sqrt(kernels::sum_squares(update));
  return parameters == 0 || length == 0 ? 1 : parameters / length;
}

class Lamb final : public Optimiser {
 public:
  Lamb(const LambOptions& options, const Layout& layout)
      : options_(options), tensors_(layout), mean_(layout.size()), variance_(layout.size()) {}

  void begin_step(std::uint64_t step) override { step_ = step; }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, mean_.size());
    for (const Tensors::Tensor& tensor : tensors_.within(begin, mean.size())) {
      const auto p = parameters.subspan(tensor.range.begin - begin, tensor.range.size());
      const auto update = mean.subspan(tensor.range.begin - begin, tensor.range.size());
      const bool adapts = !tensor.vector || options_.adapt_vectors;
      make_update(update, p, tensor.range.begin, adapts ? options_.weight_decay : 0);
      const auto rate = static_cast<float>(adapts ? lr * ratio_of_lengths(p, update) : lr);
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * update[i];
    }
  }

  bool needs_whole_tensors() const override { return true; }
  void visit_state(StateVisitor& visitor) override {
    visit_vector(visitor, "mean", mean_);
    visit_vector(visitor, "variance", variance_);
  }
  bool may_reset_buffers() const override { return !options_.bias_correction; }

 private:
  // Replaces a tensor's gradient by its u.
  void make_update(std::span<float> gradient, std::span<const float> p, std::size_t begin, double weight_decay) {
    const auto t = static_cast<double>(step_ + 1);
    const bool corrects = options_.bias_correction;
    const auto scale = static_cast<float>(corrects ? 1 / (1 - std::pow(options_.beta1, t)) : 1);
    const auto root = static_cast<float>(corrects ? std::sqrt(1 - std::pow(options_.beta2, t)) : 1);
    const auto new1 = static_cast<float>(1 - options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2), new2 = static_cast<float>(1 - options_.beta2);
    const auto eps = static_cast<float>(options_.eps);
    const auto decay = static_cast<float>(weight_decay);
    float* m = mean_.data() + begin;
    float* v = variance_.data() + begin;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float g = gradient[i];
      m[i] += new1 * (g - m[i]);
      v[i] = beta2 * v[i] + new2 * g * g;
      gradient[i] = scale * m[i] / (std::sqrt(v[i]) / root + eps) + decay * p[i];
    }
  }

  LambOptions options_;
  Tensors tensors_;
  std::uint64_t step_ = 0;
  std::vector<float> mean_, variance_;  // running means of the gradients and of their squares
};

}  // namespace

std::unique_ptr<Optimiser> make_lamb(const LambOptions& options, const Layout& layout) {
  return std::make_unique<Lamb>(options, layout);
}

}  // namespace sotto
