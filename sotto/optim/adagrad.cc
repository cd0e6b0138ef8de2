#include "sotto/optim/adagrad.h"

#include <cmath>
#include <vector>

#include "sotto/optim/stretch.h"

namespace sotto {
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
  float share_ = 1;         // of a step, that an update makes
  std::vector<float> sum_;  // of the squares of the gradients
};

}  // namespace

std::unique_ptr<Optimiser> make_adagrad(const AdagradOptions& options, const Layout& layout) {
  return std::make_unique<Adagrad>(options, layout.size());
}

}  // namespace sotto
