#include "sotto/optim/onebit_adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sotto/optim/stretch.h"

namespace sotto {
namespace {

class OneBitAdam final : public Optimiser {
 public:
  OneBitAdam(const OneBitAdamOptions& options, std::size_t parameters)
      : options_(options), mean_(parameters), variance_(parameters) {}

  std::uint64_t dense_steps() const override { return static_cast<std::uint64_t>(options_.warmup); }
  void begin_step(std::uint64_t step) override { step_ = step; }

  bool offers_gradient() const override { return false; }
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    require_stretch(gradient, gradient, begin, mean_.size());
    if (!frozen()) return gradient;
    const float* m = mean_.data() + begin;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = m[i] + added() * (gradient[i] - m[i]);
    return gradient;
  }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, mean_.size());
    float* m = mean_.data() + begin;
    float* v = variance_.data() + begin;
    if (frozen()) {
      for (std::size_t i = 0; i < mean.size(); ++i) m[i] = v[i] == 0 ? 0 : mean[i];
    } else {
      const auto beta2 = static_cast<float>(options_.beta2), new2 = static_cast<float>(1 - options_.beta2);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        m[i] += added() * (mean[i] - m[i]);
        v[i] = beta2 * v[i] + new2 * mean[i] * mean[i];
      }
    }
    const auto t = static_cast<double>(step_ + 1);
    const double seen = std::min(t, static_cast<double>(options_.warmup));
    const auto rate = static_cast<float>(lr / (1 - std::pow(options_.beta1, t)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, seen)));
    const auto eps = static_cast<float>(options_.eps);
    const auto shrink = static_cast<float>(1 - lr * options_.weight_decay);
    float* p = parameters.data();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      p[i] = shrink * p[i] - rate * m[i] / (std::sqrt(v[i]) / root + eps);
    }
  }

  void visit_state(StateVisitor& visitor) override {
    visit_vector(visitor, "mean", mean_);
    visit_vector(visitor, "variance", variance_);
  }
  bool may_reset_buffers() const override { return false; }

 private:
  bool frozen() const { return step_ >= dense_steps(); }
  float added() const { return static_cast<float>(1 - options_.beta1); }

  OneBitAdamOptions options_;
  std::uint64_t step_ = 0;
  std::vector<float> mean_, variance_;  // running means of the gradients and of their squares
};

}  // namespace

std::unique_ptr<Optimiser> make_onebit_adam(const OneBitAdamOptions& options, const Layout& layout) {
  return std::make_unique<OneBitAdam>(options, layout.size());
}

}  // namespace sotto
