#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// The sum of a linear codec's forms by one all-reduce: dense f32, or a cast to 16 bits. Bytes sent a rank: 2n(W-1)/W of
// the linear form. A cast is divided by W before the sum; a sum that overflows all the same is a NumericError on every
// rank, and the memory is not settled. A sum in 16 bits is rounded at every addition; error feedback remembers what the
// cast of a rank's own vector lost, not that. Unlike in its messages, f16 has no unit here: v/W below 3e-8 counts as 0,
// and |v| above 65504 is a NumericError; bf16 has the range of a float.
std::string all_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_all_reduce(AggregatorParts parts);

}  // namespace sotto
