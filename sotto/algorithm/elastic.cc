#include "sotto/algorithm/elastic.h"

#include "sotto/aggregate/aggregate.h"

namespace sotto {

double Follower::compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) {
  for (std::size_t b = 0; b < buckets().size(); ++b) calls.needed(b);
  std::ranges::fill(gradient(), 0.0F);
  for (std::size_t b = 0; b < buckets().size(); ++b) calls.ready(b);
  return 0;
}

void Following::weigh(std::span<float> values) const {
  if (weight_ == 0) std::ranges::fill(values, 0.0F);
  if (weight_ == 0 || weight_ == 1) return;
  std::ranges::transform(values, values.begin(), [this](float value) { return value * weight_; });
}

void Following::agree(float& stop) {
  if (weight_ == 0 && stops_ && stops_()) stop = 1;
  communicator_.all_reduce(std::span(&stop, 1), ReduceOp::max);
}

void Following::average_models(std::span<float> x) {
  if (some_follow()) return average_members(x, communicator_, weight_ != 0);
  aggregate(x, Op::avg, communicator_);
}

}  // namespace sotto
