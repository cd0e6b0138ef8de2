#include "sotto/optim/signum.h"

#include <cmath>

namespace sotto {
namespace {

// Keeps infinities and NaN, so that the exchange finds and reports them.
float sign_of(float value) { return std::isfinite(value) ? static_cast<float>((value > 0) - (value < 0)) : value; }

class Signum final : public Optimiser {
 public:
  Signum(const SignumOptions& options, std::size_t parameters)
      : options_(options), size_(parameters), mean_(options.momentum == 0 ? 0 : parameters) {}

  bool offers_gradient() const override { return false; }
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    require_stretch(gradient, gradient, begin, size_);
    const auto added = static_cast<float>(1 - options_.momentum);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (!mean_.empty()) {
        float& m = mean_[begin + i];
        m += added * (gradient[i] - m);
        gradient[i] = m;
      }
      gradient[i] = sign_of(gradient[i]);
    }
    return gradient;
  }
  bool offer_makes_buffers() const override { return true; }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    const auto rate = static_cast<float>(lr);
    const auto decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; i < mean.size(); ++i) parameters[i] -= rate * (mean[i] + decay * parameters[i]);
  }

  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "momentum", mean_); }

 private:
  SignumOptions options_;
  std::size_t size_;
  std::vector<float> mean_;  // running mean of this rank's gradients; empty without momentum
};

}  // namespace

std::unique_ptr<Optimiser> make_signum(const SignumOptions& options, const Layout& layout) {
  return std::make_unique<Signum>(options, layout.size());
}

namespace {

class SignStep final : public Optimiser {
 public:
  SignStep(const SignStepOptions& options, std::size_t parameters) : options_(options), size_(parameters) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    const auto rate = static_cast<float>(lr);
    const auto shrink = static_cast<float>(1 - lr * options_.weight_decay);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const auto sign = static_cast<float>((mean[i] > 0) - (mean[i] < 0));
      parameters[i] = shrink * parameters[i] - rate * sign;
    }
  }

  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  SignStepOptions options_;
  std::size_t size_;
};

}  // namespace

std::unique_ptr<Optimiser> make_sign_step(const SignStepOptions& options, const Layout& layout) {
  return std::make_unique<SignStep>(options, layout.size());
}

}  // namespace sotto
