#include "sotto/aggregate/memory/memsgd.h"

#include "sotto/aggregate/memory/residual.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

class MemSgd final : public Residual {
 public:
  explicit MemSgd(const MemoryParts& parts) : Residual(parts, "memory.memsgd"), rates_(parts.buckets.size()) {}

  Bucket prepare(const Bucket& gradient, const StepContext& step, std::span<float> owed) override {
    const auto rate = static_cast<float>(step.rate);
    if (!(rate > 0)) {
      throw ConfigError("memsgd holds back gradients times the learning rate, which is " + format_double(step.rate) +
                        " at step " + std::to_string(step.number) +
                        ": use a schedule of rates above 0, or `ef`, which needs no rate");
    }
    const Bucket held = held_.beside(gradient);
    float& before = rates_.at(gradient.index);
    const float change = before > 0 ? before / rate : 1.0F;
    kernels::xpay(gradient.values, change, held.values);
    kernels::scale(change, owed);
    before = rate;
    return held;
  }
  void visit_state(StateVisitor& visitor) override {
    Residual::visit_state(visitor);
    visitor.visit("memory.memsgd.rates", rates_);
  }

 private:
  std::vector<float> rates_;  // the rate in whose units each bucket's residual is; 0: none yet
};

}  // namespace

std::unique_ptr<Memory> make_memsgd(const NoOptions& /*options*/, const MemoryParts& parts) {
  return std::make_unique<MemSgd>(parts);
}

}  // namespace sotto
