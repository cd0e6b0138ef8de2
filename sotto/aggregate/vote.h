#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Majority vote (signSGD: Bernstein et al., ICML 2018; Signum: Bernstein et al., ICLR 2019). Each rank owns a chunk of
// a bucket: it receives the signs of every rank, counts them, and sends the majority to all. Every rank ends with -1 or
// 1 for each element. A tie is a sum of zero, whose sign is drawn from the key and the owner's rank: it is the same on
// every rank and in every replay. Bytes sent per rank: as scatter_reduce, with one bit per element each way.
std::string vote_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_vote(AggregatorParts parts);

}  // namespace sotto
