#pragma once

#include <span>
#include <vector>

#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct GroupTraits {
  bool own_models = false;  // between two exchanges each rank has its own model
  bool followers = false;   // a rank may take part before it has the model
};

// The aggregator of an algorithm whose ranks exchange all together, in a group that may change.
class GroupAggregator : public Elastic {
 public:
  GroupAggregator(std::vector<Phase> phases, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                  Communicator& communicator, const GroupTraits& traits);

  std::span<const BucketPlan> buckets() const { return buckets_; }
  Following& ranks() { return ranks_; }
  void enter(std::uint64_t step) { aggregator_.enter(step); }
  // Replaces this bucket of the vector by its mean over all ranks.
  void average(std::size_t bucket, std::span<float> vector, const Key& key, const StepContext& step, Timings& timings);
  void visit_state(StateVisitor& visitor);
  void visit_shared(StateVisitor& visitor) override { aggregator_.current().visit_shared(visitor); }
  void take_over(std::span<const FormerRank> each) override;
  // The status at the last note(), which REQUIRES that nothing is on its way.
  const AlgorithmStatus& status() const { return status_; }
  void note() { status_ = {std::string(aggregator_.current().name()), aggregator_.current().remark()}; }

 private:
  std::vector<BucketPlan> buckets_;
  Following ranks_;
  ScheduledAggregator aggregator_;
  AlgorithmStatus status_;
};

}  // namespace sotto
