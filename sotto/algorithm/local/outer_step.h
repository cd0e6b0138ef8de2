#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/algorithm/following.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct OuterOptions {
  double lr = 1;
  double momentum = 0;
  bool nesterov = false;
  bool in_rates = false;  // lr and velocity are in units of the ranks' own rate (SlowMo)
};

// The step that all ranks take alike after an exchange: a step of SGD from their common start, with the mean of how far
// they went as its gradient. Their next start is the same on all ranks, to the last bit.
class OuterStep {
 public:
  // A follower of the group keeps steps in place of taking them, until catch_up().
  OuterStep(const OuterOptions& options, std::size_t parameters, Following& group);

  // Sets the common start before the first step; does nothing later.
  void begin(std::span<const float> parameters);
  bool has_begun() const { return begun_ != 0; }
  std::span<const float> start(const Range& range) const {
    return std::span(start_).subspan(range.begin, range.size());
  }
  bool catch_up(Clock::time_point until) { return group_.replay(*sgd_, start_, until); }  // as Following::replay()
  // start -= lr * direction(mean) for this stretch. May overwrite `mean`. `rate` is the ranks' own learning rate.
  void take(const Range& range, std::span<float> mean, double rate);
  bool in_rates() const { return options_.in_rates; }
  // Whether a step may lead to another point than the mean of the models.
  bool leaves_mean() const { return options_.lr != 1 || options_.momentum != 0; }
  void visit_state(StateVisitor& visitor);

 private:
  OuterOptions options_;
  std::vector<float> start_;
  std::uint64_t begun_ = 0;
  std::unique_ptr<Optimiser> sgd_;
  Following& group_;
};

}  // namespace sotto
