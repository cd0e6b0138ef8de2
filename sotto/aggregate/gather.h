#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Every rank's message to every other rank; each decodes all of them, its own too, in rank order, so that replicas stay
// bit-identical. Bytes sent a rank: (W-1) * message, which grows with W.
std::string gather_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather(AggregatorParts parts);

// The same messages, of codecs that choose atoms (elements, or coefficients of a transform): the mean of an atom is
// over the ranks that sent it, not over all (DeMo: Peng, Quesnelle, Kingma, 2024). One inverse transform for all ranks.
std::string gather_held_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather_held(AggregatorParts parts);

}  // namespace sotto
