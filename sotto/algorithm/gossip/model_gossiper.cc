#include "sotto/algorithm/gossip/model_gossiper.h"

#include <utility>

#include "sotto/algorithm/gossip/gossip_step.h"

namespace sotto {

ModelGossiper::ModelGossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                             Communicator& communicator)
    : communicator_(communicator),
      buckets_(buckets.begin(), buckets.end()),
      gossipers_(make_gossipers(options, buckets, communicator)) {}

void ModelGossiper::leave(std::span<float> x, GossipNote& note, Step& now) {
  const Timer timer;
  communicator_.at_step(now.step);
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.begin(part, note, now.key, now.timings); });
  has_come_ = false;
  thread_.post([this] {
    for (Gossiper& gossiper : gossipers_) gossiper.exchange(communicator_, exchanged_);
    has_come_ = true;
  });
  now.wait += timer.seconds();
}

void ModelGossiper::finish(std::span<float> x, GossipNote& note, Timings& timings) {
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.finish(part, note, timings); });
  timings += std::exchange(exchanged_, {});
}

void ModelGossiper::follow(const std::shared_ptr<const Topology>& topology) {
  for (Gossiper& gossiper : gossipers_) gossiper.follow(topology);
}

void ModelGossiper::visit_state(StateVisitor& visitor) { visit_gossipers(visitor, gossipers_); }

}  // namespace sotto
