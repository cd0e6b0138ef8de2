#include "sotto/algorithm/group_aggregator.h"

namespace sotto {

GroupAggregator::GroupAggregator(std::vector<Phase> phases, const AlgorithmOptions& options,
                                 std::span<const BucketPlan> buckets, Communicator& communicator,
                                 const GroupTraits& traits)
    : Elastic(traits.own_models, traits.followers ? &ranks_ : nullptr),
      buckets_(buckets.begin(), buckets.end()),
      ranks_(communicator, traits.own_models),
      aggregator_(std::move(phases), buckets_, communicator.rank(), communicator.size(),
                  std::make_shared<ThreadPool>(options.codec_threads)) {
  note();
}

void GroupAggregator::average(std::size_t bucket, std::span<float> vector, const Key& key, const StepContext& step,
                              Timings& timings) {
  const BucketPlan& plan = buckets_[bucket];
  const auto values = vector.subspan(plan.range.begin, plan.range.size());
  ranks_.weigh(values);
  Bucket whole{values, &plan.layout, static_cast<std::uint16_t>(bucket)};
  aggregator_.current().average(whole, key, step, ranks_.communicator(), timings);
}

void GroupAggregator::visit_state(StateVisitor& visitor) {
  aggregator_.current().visit_state(visitor);
  note();
}

void GroupAggregator::take_over(std::span<const FormerRank> each) {
  aggregator_.take_over(each);
  note();
}

}  // namespace sotto
