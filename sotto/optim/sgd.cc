#include "sotto/optim/sgd.h"

namespace sotto {
namespace {

class Sgd final : public Optimiser {
 public:
  Sgd(const SgdOptions& options, std::size_t parameters)
      : options_(options), size_(parameters), velocity_(options.momentum == 0 ? 0 : parameters) {}

  void take_shares(double share) override { looks_ahead_ = share < 1 && !velocity_.empty(); }

  // The direction of Nesterov's momentum, with the worker's own momentum: DANA-Slim.
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    if (!looks_ahead_) return gradient;
    require_stretch(gradient, gradient, begin, size_);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto fresh = static_cast<float>(1 - options_.dampening);
    float* v = velocity_.data() + begin;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float d = fresh * gradient[i];
      v[i] = momentum * v[i] + d;
      gradient[i] = d + momentum * v[i];
    }
    return gradient;
  }

  bool offer_makes_buffers() const override { return looks_ahead_; }

  void begin_step(std::uint64_t step) override { fresh_ = step == 0 ? 1 : static_cast<float>(1 - options_.dampening); }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    const auto rate = static_cast<float>(lr);
    // Decay that went through momentum would in the end act `times` times; parameters change little until then.
    const double times = looks_ahead_ ? (1 - options_.dampening) / (1 - options_.momentum) : 1;
    const auto decay = static_cast<float>(options_.weight_decay * times);
    const auto momentum = static_cast<float>(options_.momentum);
    const float* g = mean.data();
    float* p = parameters.data();
    if (velocity_.empty() || looks_ahead_) {
      for (std::size_t i = 0; i < mean.size(); ++i) p[i] -= rate * (g[i] + decay * p[i]);
      return;
    }
    float* v = velocity_.data() + begin;
    const bool nesterov = options_.nesterov;
    const float fresh = fresh_;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float d = g[i] + decay * p[i];
      v[i] = momentum * v[i] + fresh * d;
      p[i] -= rate * (nesterov ? d + momentum * v[i] : v[i]);
    }
  }

  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "velocity", velocity_); }

 private:
  SgdOptions options_;
  std::size_t size_;
  float fresh_ = 1;              // share of a direction that enters the velocity
  bool looks_ahead_ = false;     // offer() makes the momentum
  std::vector<float> velocity_;  // empty without momentum
};

}  // namespace

std::string SgdOptions::problem() const {
  if (nesterov && momentum == 0) {
    return "nesterov looks ahead along the momentum, and momentum is 0: set momentum, or leave nesterov out";
  }
  if (nesterov && dampening != 0) return "nesterov wants no dampening";
  if (dampening != 0 && momentum == 0) return "dampening acts on the momentum, and momentum is 0";
  return "";
}

std::unique_ptr<Optimiser> make_sgd(const SgdOptions& options, const Layout& layout) {
  return std::make_unique<Sgd>(options, layout.size());
}

namespace {

class Dgc final : public Optimiser {
 public:
  Dgc(const DgcOptions& options, std::size_t parameters)
      : options_(options), size_(parameters), pull_(options.weight_decay == 0 ? 0 : parameters) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    const auto rate = static_cast<float>(lr);
    const float* g = mean.data();
    float* p = parameters.data();
    if (pull_.empty()) {
      for (std::size_t i = 0; i < mean.size(); ++i) p[i] -= rate * g[i];
      return;
    }
    const auto momentum = static_cast<float>(options_.decay_momentum);
    const auto decay = static_cast<float>(options_.weight_decay);
    const bool nesterov = options_.nesterov;
    float* d = pull_.data() + begin;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float fresh = decay * p[i];
      d[i] = momentum * d[i] + fresh;
      p[i] -= rate * (g[i] + (nesterov ? fresh + momentum * d[i] : d[i]));
    }
  }

  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "pull", pull_); }

 private:
  DgcOptions options_;
  std::size_t size_;
  std::vector<float> pull_;  // empty without weight decay
};

}  // namespace

std::unique_ptr<Optimiser> make_dgc(const DgcOptions& options, const Layout& layout) {
  return std::make_unique<Dgc>(options, layout.size());
}

}  // namespace sotto
