#include "sotto/algorithm/local/local_group.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sotto/algorithm/compute.h"

namespace sotto {

LocalGroup::LocalGroup(std::vector<Phase> phases, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       Communicator& communicator, bool followers, const OuterOptions& outer,
                       std::function<void(StateVisitor&)> visit_own)
    : GroupAggregator(std::move(phases), options, buckets, communicator, {.own_models = true, .followers = followers}),
      outer_(outer, buckets.front().range.end, ranks()),
      visit_own_(std::move(visit_own)) {}

void LocalGroup::visit_shared(StateVisitor& visitor) {
  visit_own_(visitor);
  GroupAggregator::visit_shared(visitor);
}

// The mean of how far ranks went, so that ranks which are all at their common start stay there, to the last bit.
void LocalGroup::sync_after_change(Worker& worker, bool is_new) {
  Communicator& communicator = ranks().communicator();
  const std::span<const float> start = outer_.start({0, worker.parameters().size()});
  std::vector<float> gone(start.size());
  if (outer_.has_begun() && !is_new) std::ranges::transform(worker.parameters(), start, gone.begin(), std::minus());
  float farthest = 0;
  for (const float value : gone) farthest = std::max(farthest, std::abs(value));
  communicator.all_reduce(std::span(&farthest, 1), ReduceOp::max);
  if (farthest > 0) average_members(gone, communicator, !is_new);
  if (outer_.has_begun()) std::ranges::transform(start, gone, worker.parameters().begin(), std::plus());
}

bool LocalGroup::catch_up(Worker& worker, Clock::time_point until) {
  outer_.begin(worker.parameters());
  if (!outer_.catch_up(until)) return false;
  std::ranges::copy(outer_.start({0, worker.parameters().size()}), worker.parameters().begin());
  return true;
}

}  // namespace sotto
