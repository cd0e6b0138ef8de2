#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Majority vote (signSGD: Bernstein et al., ICML 2018; Signum: Bernstein et al., ICLR 2019). Each rank owns a chunk of
// a bucket: it gets the signs of every rank, counts them, and sends the sign of the count to all; every rank ends with
// -1 or 1 for each element. A tie, as the sign of a zero, is drawn: from the key and the owner's rank, so it is the
// same on every rank and in every replay. Bytes sent a rank are scatter_reduce's, of one bit an element each way.
std::string vote_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_vote(AggregatorParts parts);

}  // namespace sotto
