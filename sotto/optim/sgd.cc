#include <fmt/format.h>

#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/optim/optimiser.h"

namespace sotto {
namespace {

class Sgd final : public Optimiser {
 public:
  Sgd(const SgdOptions& options, std::size_t parameters)
      : options_(options), size_(parameters), velocity_(options.momentum == 0 ? 0 : parameters) {}

  void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double lr) override {
    if (parameters.size() != mean.size() || begin > size_ || parameters.size() > size_ - begin) {
      throw std::logic_error("Sgd::apply: a stretch that is not part of the parameters");
    }
    const auto rate = static_cast<float>(lr);
    const auto decay = static_cast<float>(options_.weight_decay);
    const auto momentum = static_cast<float>(options_.momentum);
    const float* g = mean.data();
    float* p = parameters.data();
    if (velocity_.empty()) {
      for (std::size_t i = 0; i < mean.size(); ++i) p[i] -= rate * (g[i] + decay * p[i]);
      return;
    }
    // Velocities start at zero, so the first one is the direction itself, as torch has it.
    float* v = velocity_.data() + begin;
    const bool nesterov = options_.nesterov;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float d = g[i] + decay * p[i];
      v[i] = momentum * v[i] + d;
      p[i] -= rate * (nesterov ? d + momentum * v[i] : v[i]);
    }
  }

  void visit_state(StateVisitor& visitor) override {
    const std::size_t size = velocity_.size();
    visitor.visit("velocity", velocity_);
    const std::size_t read = velocity_.size();
    if (read == size) return;
    velocity_.resize(size);  // without momentum it is empty, which a reader takes for any length
    throw FileError(fmt::format("velocity has {} values, and should have {}: another momentum or model", read, size));
  }

 private:
  SgdOptions options_;
  std::size_t size_;
  std::vector<float> velocity_;  // empty without momentum
};

}  // namespace

std::unique_ptr<Optimiser> make_sgd(const SgdOptions& options, std::size_t parameters) {
  if (options.nesterov && options.momentum == 0) {
    throw ConfigError(
        "nesterov looks ahead along the momentum, and momentum is 0: set momentum, or leave nesterov out");
  }
  return std::make_unique<Sgd>(options, parameters);
}

}  // namespace sotto
