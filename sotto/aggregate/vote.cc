#include "sotto/aggregate/vote.h"

#include "sotto/aggregate/scatter_reduce.h"

namespace sotto {

std::string vote_suits(const Codec& codec, std::span<const BucketPlan> buckets) {
  if (codec.contract(buckets.front().layout).signs) return "";
  return "a vote is of signs, and messages of `" + codec.traits().text + "` are not: use `signs`, or scatter_reduce";
}

std::unique_ptr<Aggregator> make_vote(AggregatorParts parts) {
  return make_scatter_reduce_sum(std::move(parts), "vote");
}

}  // namespace sotto
