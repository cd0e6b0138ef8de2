#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Each rank owns a chunk of each bucket. It gets every other rank's message for that chunk, decodes and sums them in
// rank order, and sends the mean, encoded again, to all; each rank decodes those messages, its own too, so that
// replicas stay bit-identical. Bytes sent a rank: about 2 messages (W-1)/W, whatever W. What the second encoding loses
// is kept by the owner when the method has a memory, and goes into its memory when the aggregator retires.
std::string scatter_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_scatter_reduce(AggregatorParts parts);

// The same without the division, under a name of its own: owners encode sums. For codecs to which a factor is nothing,
// and to which it matters that sums of whole numbers are exact (vote.h). No memory of what the second encoding left
// out.
std::unique_ptr<Aggregator> make_scatter_reduce_sum(AggregatorParts parts, std::string_view name);

}  // namespace sotto
