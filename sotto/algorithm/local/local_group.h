#pragma once

#include <functional>
#include <vector>

#include "sotto/algorithm/group_aggregator.h"
#include "sotto/algorithm/local/outer_step.h"

namespace sotto {

// What ranks with local steps share, in a group that may change: the aggregator and the common start.
class LocalGroup final : public GroupAggregator {
 public:
  // `visit_own` visits all state but the aggregator's.
  LocalGroup(std::vector<Phase> phases, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
             Communicator& communicator, bool followers, const OuterOptions& outer,
             std::function<void(StateVisitor&)> visit_own);

  OuterStep& outer() { return outer_; }

  // After a resume ranks begin with the mean of all models, which is as far from the common start as all were on
  // average.
  void visit_shared(StateVisitor& visitor) override;
  // Between two exchanges, too: all continue from the mean of how far those that are not new have come from the common
  // start.
  void sync_after_change(Worker& worker, bool is_new) override;
  bool catch_up(Worker& worker, Clock::time_point until) override;

 private:
  OuterStep outer_;
  std::function<void(StateVisitor&)> visit_own_;
};

}  // namespace sotto
