#include "sotto/optim/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sotto/optim/stretch.h"

namespace sotto {
namespace {

class Adam final : public Optimiser {
 public:
  Adam(const AdamOptions& options, bool decoupled, std::size_t parameters)
      : options_(options),
        decoupled_(decoupled),
        mean_(parameters),
        variance_(parameters),
        largest_(options.amsgrad ? parameters : 0) {}

  void begin_step(std::uint64_t step) override { step_ = step; }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, mean_.size());
    const auto t = static_cast<double>(step_ + 1);
    const auto rate = static_cast<float>(lr / (1 - std::pow(options_.beta1, t)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t)));
    const auto new1 = static_cast<float>(1 - options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2), new2 = static_cast<float>(1 - options_.beta2);
    const auto eps = static_cast<float>(options_.eps);
    const auto pull = decoupled_ ? 0.0F : static_cast<float>(options_.weight_decay);
    const auto shrink = decoupled_ ? static_cast<float>(1 - lr * options_.weight_decay) : 1.0F;
    float* p = parameters.data();
    float* m = mean_.data() + begin;
    float* v = variance_.data() + begin;
    // variance_of(i) is called after v[i] has changed.
    const auto move = [&](auto variance_of) {
      for (std::size_t i = 0; i < mean.size(); ++i) {
        const float g = mean[i] + pull * p[i];
        m[i] += new1 * (g - m[i]);
        v[i] = beta2 * v[i] + new2 * g * g;
        p[i] = shrink * p[i] - rate * m[i] / (std::sqrt(variance_of(i)) / root + eps);
      }
    };
    if (largest_.empty()) return move([v](std::size_t i) { return v[i]; });
    float* most = largest_.data() + begin;
    move([v, most](std::size_t i) { return most[i] = std::max(most[i], v[i]); });
  }

  void visit_state(StateVisitor& visitor) override {
    visit_vector(visitor, "mean", mean_);
    visit_vector(visitor, "variance", variance_);
    if (!largest_.empty()) visit_vector(visitor, "largest", largest_);
  }
  bool may_reset_buffers() const override { return false; }

 private:
  AdamOptions options_;
  bool decoupled_;
  std::uint64_t step_ = 0;
  std::vector<float> mean_, variance_;  // running means of the gradients and of their squares
  std::vector<float> largest_;          // the largest variances so far; empty without amsgrad
};

}  // namespace

std::unique_ptr<Optimiser> make_adam(const AdamOptions& options, const Layout& layout) {
  return std::make_unique<Adam>(options, false, layout.size());
}

std::unique_ptr<Optimiser> make_adamw(const AdamWOptions& options, const Layout& layout) {
  return std::make_unique<Adam>(options, true, layout.size());
}

}  // namespace sotto
