#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/algorithm/elastic.h"
#include "sotto/algorithm/group_aggregator.h"
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

// What ranks with local steps share, in a group that may change: the aggregator and the common start.
class LocalGroup final : public GroupAggregator {
 public:
  // `algorithm` is the name of an algorithm whose ranks exchange differences of models. ConfigError for what suits
  // gradients alone: codecs whose contract says so, memories that make a momentum or use the rate, and `auto`.
  // `visit_own` visits all state but the aggregator's.
  LocalGroup(std::string_view algorithm, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
             Communicator& communicator, bool followers, const OuterOptions& outer,
             std::function<void(StateVisitor&)> visit_own);

  OuterStep& outer() { return outer_; }

  // After a resume ranks begin with the mean of all models, which is as far from the common start as all were on
  // average.
  void visit_shared(StateVisitor& visitor) override;
  // Works between two exchanges, too: all ranks continue as far from the common start as the ranks that are not new
  // have come on average.
  void sync_after_change(Worker& worker, bool is_new) override;
  bool catch_up(Worker& worker, Clock::time_point until) override;

 private:
  OuterStep outer_;
  std::function<void(StateVisitor&)> visit_own_;
};

}  // namespace sotto
