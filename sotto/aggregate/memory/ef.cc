#include "sotto/aggregate/memory/ef.h"

#include "sotto/aggregate/memory/residual.h"

namespace sotto {
namespace {

class ErrorFeedback final : public Residual {
 public:
  explicit ErrorFeedback(const MemoryParts& parts) : Residual(parts, "memory.ef") {}

  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    hold(gradient);
    return held_.beside(gradient);
  }
};

}  // namespace

std::unique_ptr<Memory> make_error_feedback(const NoOptions& /*options*/, const MemoryParts& parts) {
  return std::make_unique<ErrorFeedback>(parts);
}

}  // namespace sotto
