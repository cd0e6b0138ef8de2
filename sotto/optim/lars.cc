#include "sotto/optim/lars.h"

#include <cmath>
#include <vector>

#include "sotto/kernels/reduce.h"
#include "sotto/optim/stretch.h"
#include "sotto/optim/tensors.h"

namespace sotto {
namespace {

class Lars final : public Optimiser {
 public:
  Lars(const LarsOptions& options, const Layout& layout)
      : options_(options),
        tensors_(layout),
        size_(layout.size()),
        velocity_(options.momentum == 0 ? 0 : layout.size()) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    for (const Tensors::Tensor& tensor : tensors_.within(begin, mean.size())) {
      const auto p = parameters.subspan(tensor.range.begin - begin, tensor.range.size());
      const auto g = mean.subspan(tensor.range.begin - begin, tensor.range.size());
      const bool adapts = !tensor.vector || options_.adapt_vectors;
      const auto rate = static_cast<float>(adapts ? lr * trust_ratio(p, g) : lr);
      const auto decay = static_cast<float>(adapts ? options_.weight_decay : 0);
      if (velocity_.empty()) {
        for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * (g[i] + decay * p[i]);
        continue;
      }
      const auto momentum = static_cast<float>(options_.momentum);
      float* v = velocity_.data() + tensor.range.begin;
      for (std::size_t i = 0; i < p.size(); ++i) {
        v[i] = momentum * v[i] + rate * (g[i] + decay * p[i]);
        p[i] -= v[i];
      }
    }
  }

  bool needs_whole_tensors() const override { return true; }
  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "velocity", velocity_); }

 private:
  double trust_ratio(std::span<const float> p, std::span<const float> g) const {
    const double parameters = std::sqrt(kernels::sum_squares(p)), gradient = std::sqrt(kernels::sum_squares(g));
    if (parameters == 0 || gradient == 0) return 1;
    return options_.trust * parameters / (gradient + options_.weight_decay * parameters + options_.eps);
  }

  LarsOptions options_;
  Tensors tensors_;
  std::size_t size_;
  std::vector<float> velocity_;  // of the last step; empty without momentum
};

}  // namespace

std::unique_ptr<Optimiser> make_lars(const LarsOptions& options, const Layout& layout) {
  return std::make_unique<Lars>(options, layout);
}

}  // namespace sotto
