#include "sotto/algorithm/gossip/model_gossiper.h"

#include "sotto/algorithm/gossip/gossip.h"

namespace sotto {
namespace {

std::vector<Range> ranges_of(std::span<const BucketPlan> buckets) {
  std::vector<Range> ranges;
  for (const BucketPlan& bucket : buckets) ranges.push_back(bucket.range);
  return ranges;
}

}  // namespace

ModelGossiper::ModelGossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                             const Communicator& communicator)
    : ranges_(ranges_of(buckets)),
      gossipers_(make_gossipers(options, buckets, communicator)),
      size_(buckets.front().range.end) {}

void ModelGossiper::begin(std::span<float> x, GossipNote& note, const Key& key, Timings& timings) {
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.begin(part, note, key, timings); });
}

void ModelGossiper::exchange(Communicator& communicator, Timings& timings) {
  for (Gossiper& gossiper : gossipers_) gossiper.exchange(communicator, timings);
}

void ModelGossiper::finish(std::span<float> x, GossipNote& note, Timings& timings) {
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.finish(part, note, timings); });
}

void ModelGossiper::follow(const std::shared_ptr<const Topology>& topology) {
  for (Gossiper& gossiper : gossipers_) gossiper.follow(topology);
}

void ModelGossiper::visit_state(StateVisitor& visitor) { visit_gossipers(visitor, gossipers_); }

}  // namespace sotto
