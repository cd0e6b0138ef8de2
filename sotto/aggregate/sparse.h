#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Balanced sparse all-reduce (Ok-Topk: Li, Hoefler, PPoPP 2022; SparCML: Renggli et al., SC 2019), for codecs that
// choose elements. Each rank chooses entries from its whole vector, and sends them to the owners of regions, which hold
// about equally many entries. An owner sums them, and sends to all ranks the sums that are among the largest of all
// owners; together these are as many as one rank chose. A rank receives about 6 numbers per entry that it chooses,
// whatever the number of ranks. Entries that a rank chose and their owner did not keep stay in that rank's memory; what
// a quantiser loses of a sum goes into the owner's memory.
//
// Ranks agree on regions, and on the threshold of sums, in the first exchange of a bucket and in every 32nd after it;
// in between, the threshold follows the number of sums that were kept. Allocates only when regions change.
std::string sparse_suits(const Codec& codec, std::span<const BucketPlan> buckets);
constexpr int sparse_period = 32;  // exchanges of a bucket from one agreement to the next
std::unique_ptr<Aggregator> make_sparse(AggregatorParts parts);

// About how many bytes a rank sends, if the message of bucket b has bytes[b] bytes.
double sparse_bytes(const AggregatorParts& parts, std::span<const double> bytes);

}  // namespace sotto
