#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Every rank sends its message to every other rank. Each rank decodes all messages, including its own, in rank order,
// so that replicas stay bit-identical. Bytes sent per rank: (W-1) * message, for W ranks.
std::string gather_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather(AggregatorParts parts);

// Sends the same messages, for codecs that choose atoms (elements, or coefficients of a transform), but averages each
// atom over the ranks that sent it, not over all (DeMo: Peng, Quesnelle, Kingma, 2024). One inverse transform serves
// all ranks.
std::string gather_held_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather_held(AggregatorParts parts);

}  // namespace sotto
