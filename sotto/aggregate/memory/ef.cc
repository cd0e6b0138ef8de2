#include "sotto/aggregate/memory/ef.h"

#include "sotto/aggregate/memory/residual.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

struct ErrorFeedbackOptions {
  void visit(OptionVisitor& /*visitor*/) {}
};

class ErrorFeedback final : public Residual {
 public:
  explicit ErrorFeedback(const MemoryParts& parts) : Residual(parts, "memory.ef") {}

  std::string sentence() const override { return "ef"; }
  Bucket prepare(const Bucket& gradient, const Key& /*key*/) override {
    hold(gradient);
    return held_.beside(gradient);
  }
};

}  // namespace

std::unique_ptr<Memory> make_error_feedback(const Sentence& sentence, const Call& call, const MemoryParts& parts) {
  ErrorFeedbackOptions options;
  read_options(sentence, call, options);
  return std::make_unique<ErrorFeedback>(parts);
}

std::string help_error_feedback() { return help_options(ErrorFeedbackOptions{}); }

}  // namespace sotto
