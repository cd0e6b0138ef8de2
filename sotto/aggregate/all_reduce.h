#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Sums the linear forms of a codec, such as dense f32 or a cast to 16 bits, by one all-reduce. Bytes sent per rank:
// 2n(W-1)/W, for W ranks and n bytes of the linear form. A cast is divided by W before the sum; if the sum overflows
// all the same, that is a NumericError on every rank, and the memory is not settled. A sum in 16 bits is rounded at
// every addition; error feedback remembers what the cast of a rank's own vector lost, but not this rounding. Unlike in
// its messages, f16 has no unit here: v/W below 3e-8 counts as 0, and |v| above 65504 is a NumericError; bf16 has the
// range of a float.
std::string all_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_all_reduce(AggregatorParts parts);

}  // namespace sotto
