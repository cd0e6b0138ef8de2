#include "sotto/algorithm/local/outer_step.h"

#include <algorithm>

#include "sotto/core/state.h"
#include "sotto/optim/sgd.h"

namespace sotto {

OuterStep::OuterStep(const OuterOptions& options, std::size_t parameters, Following& group)
    : options_(options),
      start_(parameters),
      sgd_(make_sgd({options.momentum, options.nesterov, 0},
                    Layout({{"start", 0, {static_cast<std::int64_t>(parameters)}}}, parameters))),
      group_(group) {}

void OuterStep::begin(std::span<const float> parameters) {
  if (begun_ != 0) return;
  std::ranges::copy(parameters, start_.begin());
  begun_ = 1;
}

void OuterStep::take(const Range& range, std::span<float> mean, double rate) {
  double lr = options_.lr;
  if (options_.in_rates) {
    const auto unit = static_cast<float>(rate);
    for (float& value : mean) value /= unit;
    lr *= rate;
  }
  Optimiser& optimiser = group_.outer(*sgd_);
  optimiser.begin_step(0);  // SGD does the same in each step
  optimiser.apply(std::span(start_).subspan(range.begin, range.size()), mean, range.begin, lr);
}

void OuterStep::visit_state(StateVisitor& visitor) {
  visitor.visit("begun", begun_);
  visit_vector(visitor, "start", start_);
  sgd_->visit_state(visitor);
}

}  // namespace sotto
