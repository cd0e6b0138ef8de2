#include "sotto/optim/sign_step.h"

#include "sotto/optim/stretch.h"

namespace sotto {
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
