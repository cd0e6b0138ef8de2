#include "sotto/aggregate/memory/demo.h"

#include "sotto/aggregate/memory/residual.h"

namespace sotto {
namespace {

class Demo final : public Residual {
 public:
  Demo(const DemoOptions& options, const MemoryParts& parts) : Residual(parts, "memory.demo"), options_(options) {}

  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    const Bucket momentum = held_.beside(gradient);
    kernels::xpay(gradient.values, static_cast<float>(options_.decay), momentum.values);
    return momentum;
  }

 private:
  DemoOptions options_;
};

}  // namespace

std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts) {
  return std::make_unique<Demo>(options, parts);
}

}  // namespace sotto
