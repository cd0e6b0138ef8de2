#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Each rank owns a chunk of each bucket. It receives every other rank's message for that chunk, decodes and sums them
// in rank order, encodes the mean again, and sends it to all. Each rank decodes those messages, including its own, so
// that replicas stay bit-identical. Bytes sent per rank: about 2 messages * (W-1)/W, for W ranks. If the method has a
// memory, the owner keeps what the second encoding loses, and puts it into its memory when the aggregator retires.
std::string scatter_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_scatter_reduce(AggregatorParts parts);

// The same without the division, under the given name: owners encode sums. For codecs that ignore a factor, and that
// need exact sums of whole numbers (vote.h). Does not keep what the second encoding leaves out.
std::unique_ptr<Aggregator> make_scatter_reduce_sum(AggregatorParts parts, std::string_view name);

}  // namespace sotto
