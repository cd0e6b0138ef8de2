#include "sotto/aggregate/memory/ef.h"

#include "sotto/core/options.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

struct ErrorFeedbackOptions {
  void visit(OptionVisitor& /*visitor*/) {}
};

// One vector does for e and p: between prepare() and settle() it holds p, otherwise e.
class ErrorFeedback final : public Memory {
 public:
  explicit ErrorFeedback(std::span<const BucketPlan> buckets) {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets) {
      begins_.push_back(size);
      size += plan.range.size();
    }
    error_.resize(size);
  }

  Bucket prepare(const Bucket& gradient) override {
    Bucket prepared = gradient;
    prepared.values = std::span(error_).subspan(begins_.at(gradient.index), gradient.values.size());
    kernels::add(gradient.values, prepared.values);
    return prepared;
  }
  void settle(Bucket& prepared, const Sent& sent) override { sent.add_to(prepared, -1.0F); }
  void visit_state(StateVisitor& visitor) override { visitor.visit("memory.ef", error_); }

 private:
  std::vector<std::size_t> begins_;  // of each bucket in error_
  std::vector<float> error_;
};

}  // namespace

std::unique_ptr<Memory> make_error_feedback(const Sentence& sentence, const Call& call,
                                            std::span<const BucketPlan> buckets) {
  ErrorFeedbackOptions options;
  read_options(sentence, call, options);
  return std::make_unique<ErrorFeedback>(buckets);
}

}  // namespace sotto
