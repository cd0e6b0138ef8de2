#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Balanced sparse all-reduce (Ok-Topk: Li, Hoefler, PPoPP 2022; SparCML: Renggli et al., SC 2019), for codecs that
// choose elements. Each rank chooses from its whole vector, and sends what it chose to the owners of regions that hold
// about as many entries each; an owner sums them, keeps those sums that are among the largest of all owners, as many as
// a rank chose, and sends these to all. About 6 numbers are received for each entry that a rank chooses, whatever the
// number of ranks. What a rank chose and its owner did not keep stays in that rank's memory; what a quantiser loses of
// a sum goes into that of the owner.
//
// Ranks agree on regions and on the threshold of sums in the first exchange of a bucket, and in every 32nd behind it;
// between them the threshold follows the number of sums that were kept. Only where regions change does it allocate.
std::string sparse_suits(const Codec& codec, std::span<const BucketPlan> buckets);
constexpr int sparse_period = 32;  // exchanges of a bucket from one agreement to the next
std::unique_ptr<Aggregator> make_sparse(AggregatorParts parts);

// About what it sends from a rank, when the message of bucket b has bytes[b] bytes.
double sparse_bytes(const AggregatorParts& parts, std::span<const double> bytes);

}  // namespace sotto
