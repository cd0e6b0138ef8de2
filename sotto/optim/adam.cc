#include "sotto/optim/adam.h"

#include <algorithm>
#include <cmath>

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

  void begin_step(std::uint64_t step) override {
    auto& made = steps_.front();
    made = looks_ahead() ? made + 1 : static_cast<float>(step + 1);
  }

  void take_shares(double share) override {
    share_ = share;
    if (looks_ahead() && !decoupled_ && options_.weight_decay > 0) {
      throw ConfigError(named("optimiser") +
                        ": adam adds its weight-decay to gradients, which workers make here and servers never see: "
                        "take adamw, or leave weight-decay out");
    }
  }

  // The direction of a step, with Nesterov's momentum as in NAdam (Dozat 2016), from the worker's own gradients.
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    if (!looks_ahead()) return gradient;
    require_stretch(gradient, gradient, begin, mean_.size());
    const double t = steps_.front();
    const auto ahead = static_cast<float>(options_.beta1 / (1 - std::pow(options_.beta1, t + 1)));
    const auto fresh = static_cast<float>((1 - options_.beta1) / (1 - std::pow(options_.beta1, t)));
    follow(gradient, begin, t,
           [&](std::size_t i, float g, float m, float root) { gradient[i] = (ahead * m + fresh * g) / root; });
    return gradient;
  }
  bool offer_makes_buffers() const override { return looks_ahead(); }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, mean_.size());
    const auto shrink = decoupled_ ? static_cast<float>(1 - lr * options_.weight_decay) : 1.0F;
    float* p = parameters.data();
    if (looks_ahead()) {
      const auto rate = static_cast<float>(lr);
      for (std::size_t i = 0; i < mean.size(); ++i) p[i] = shrink * p[i] - rate * mean[i];
      return;
    }
    const double t = steps_.front();
    const auto rate = static_cast<float>(lr / (1 - std::pow(options_.beta1, t)));
    const auto pull = decoupled_ ? 0.0F : static_cast<float>(options_.weight_decay);
    if (pull != 0) {
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += pull * p[i];
    }
    follow(mean, begin, t,
           [&](std::size_t i, float /*g*/, float m, float root) { p[i] = shrink * p[i] - rate * m / root; });
  }

  void visit_state(StateVisitor& visitor) override {
    visit_vector(visitor, "steps", steps_);
    visit_vector(visitor, "mean", mean_);
    visit_vector(visitor, "variance", variance_);
    if (!largest_.empty()) visit_vector(visitor, "largest", largest_);
  }
  bool may_reset_buffers() const override { return false; }

 private:
  // Whether each worker makes the directions of its steps, and servers only step.
  bool looks_ahead() const { return share_ < 1; }

  // Takes the gradients into both running means, and calls take(i, g, m, root) for each, where root is what m is
  // divided by.
  template <class Take>
  void follow(std::span<const float> gradients, std::size_t begin, double t, const Take& take) {
    const double new2 = 1 - options_.beta2;
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t)));
    const auto new1 = static_cast<float>(1 - options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2);
    const auto whole = static_cast<float>(1 / (1 - std::pow(options_.beta1, t)));  // the running mean without its start
    const double own = weight_of_gradient(t);
    const auto of_gradient = static_cast<float>(new2 * own), of_mean = static_cast<float>(new2 * (1 - own));
    const auto eps = static_cast<float>(options_.eps);
    const float* gs = gradients.data();
    float* m = mean_.data() + begin;
    float* v = variance_.data() + begin;
    float* most = largest_.empty() ? nullptr : largest_.data() + begin;
    // square_of(gradient, mean) is what enters the variance.
    const auto go = [&](auto square_of) {
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const float g = gs[i];
        m[i] += new1 * (g - m[i]);
        v[i] = beta2 * v[i] + square_of(g, m[i]);
        const float variance = most == nullptr ? v[i] : most[i] = std::max(most[i], v[i]);
        take(i, g, m[i], std::sqrt(variance) / root + eps);
      }
    };
    if (own == 1) return go([=](float gradient, float /*mean*/) { return of_gradient * gradient * gradient; });
    go([=](float gradient, float mean) {
      const float mean_so_far = whole * mean;
      return of_gradient * gradient * gradient + of_mean * mean_so_far * mean_so_far;
    });
  }

  // The weight w of the squared gradient; the squared running mean has the weight 1 - w. The variance must have the
  // noise of a mean of 1/share gradients: otherwise the fewer gradients an update has, the smaller steps would be.
  // Noise of variance s adds `s` to the square of a gradient, and `left * s` to the square of the running mean of t
  // gradients. With this w, w + (1 - w) * left is share_, unless `left` alone is more.
  double weight_of_gradient(double t) const {
    const double start = std::pow(options_.beta1, t);
    const double left = (1 - options_.beta1) / (1 + options_.beta1) * (1 + start) / (1 - start);
    if (share_ >= 1) return 1;
    return left < share_ ? (share_ - left) / (1 - left) : 0;
  }

  AdamOptions options_;
  bool decoupled_;
  double share_ = 1;  // the share of a step that one update makes
  // How many gradients the running means have seen. A vector, so that it begins at zero with them.
  std::vector<float> steps_ = std::vector<float>(1);
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

namespace {

class Adagrad final : public Optimiser {
 public:
  Adagrad(const AdagradOptions& options, std::size_t parameters)
      : options_(options), sum_(parameters, static_cast<float>(options.start)) {}

  void begin_step(std::uint64_t step) override { step_ = step; }
  void take_shares(double share) override { share_ = static_cast<float>(share); }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, sum_.size());
    const double steps = static_cast<double>(step_) * share_;
    const auto rate = static_cast<float>(lr / (1 + steps * options_.lr_decay));
    const auto eps = static_cast<float>(options_.eps);
    const auto decay = static_cast<float>(options_.weight_decay);
    float* p = parameters.data();
    float* s = sum_.data() + begin;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float d = mean[i] + decay * p[i];
      s[i] += share_ * d * d;
      p[i] -= rate * d / (std::sqrt(s[i]) + eps);
    }
  }

  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "sum", sum_); }
  bool may_reset_buffers() const override { return false; }

 private:
  AdagradOptions options_;
  std::uint64_t step_ = 0;
  float share_ = 1;         // the share of a step that one update makes
  std::vector<float> sum_;  // of the squares of the gradients
};

}  // namespace

std::unique_ptr<Optimiser> make_adagrad(const AdagradOptions& options, const Layout& layout) {
  return std::make_unique<Adagrad>(options, layout.size());
}

}  // namespace sotto
