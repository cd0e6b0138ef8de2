#pragma once

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/options.h"

namespace sotto {

// The aggregator NAME is a class in NAME.cc, except that `gather_held` is in gather.cc, and `vote` in
// scatter_reduce.cc. all_reduce.h, hierarchical.h and auto_codec.h declare more aggregators.

// Chooses by bytes, rounds and error. A linear codec is all-reduced, because no message can be smaller than its share
// of a sum. Messages of any other codec are gathered until every bucket was exchanged once. GatheredStep meanwhile
// measures the messages, and what a second encoding does to the mean. Then scatter_reduce or sparse takes over if it is
// cheaper. The cost is (bytes + 16 KiB per round and bucket) * Forecast::steps. With a memory these steps count as 1,
// because losses are sent later. Without a memory scatter_reduce is not chosen if it needs more than 1.5 steps. The
// choice does not depend on time, is the same on all ranks, and is part of the state: a resumed run does not measure
// again.
std::unique_ptr<Aggregator> make_auto(AggregatorParts parts);

// Every rank sends its message to every other rank. Each rank decodes all messages, including its own, in rank order,
// so that replicas stay bit-identical. Bytes sent per rank: (W-1) * message, for W ranks.
std::string gather_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather(AggregatorParts parts);

// For codecs that choose atoms: elements, or coefficients of a transform. Sends the messages of `gather`, but averages
// each atom over the ranks that sent it, not over all ranks (DeMo: Peng, Quesnelle, Kingma, 2024). One inverse
// transform serves all ranks.
std::string gather_held_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_gather_held(AggregatorParts parts);

// Each rank owns a chunk of each bucket. It receives every other rank's message for that chunk, decodes and sums these
// messages in rank order, encodes their mean, and sends that to all. Each rank decodes the messages of all owners,
// including its own, so that replicas stay bit-identical. Bytes sent per rank: about 2 messages * (W-1)/W, for W ranks.
// If the method has a memory, the owner keeps what the second encoding loses, and puts it into its memory when the
// aggregator retires.
std::string scatter_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_scatter_reduce(AggregatorParts parts);

// Majority vote (signSGD: Bernstein et al., ICML 2018; Signum: Bernstein et al., ICLR 2019). Each rank owns a chunk of
// a bucket: it receives the signs of every rank, counts them, and sends the majority to all. Every rank ends with -1 or
// 1 for each element. In a tie the owner draws the sign, from the key and its rank: it is the same on every rank and in
// every replay. Bytes sent per rank: as scatter_reduce, with one bit per element each way.
std::string vote_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_vote(AggregatorParts parts);

// Balanced sparse all-reduce (Ok-Topk: Li, Hoefler, PPoPP 2022; SparCML: Renggli et al., SC 2019), for codecs that
// choose elements. Each rank chooses entries from its whole vector, and sends them to the owners of regions, which hold
// about equally many entries. An owner sums the entries. Of its sums it sends to all ranks only those that are among
// the largest of all owners. All owners together send about as many sums as one rank chose entries. A rank receives
// about 6 numbers per entry that it chooses, whatever the number of ranks. An entry that its owner did not keep stays
// in the memory of the rank that chose it. The part of a sum that a quantiser loses goes into the owner's memory.
//
// Ranks agree on regions, and on the threshold of sums, in the first exchange of a bucket and in every 32nd after it;
// in between, the threshold follows the number of sums that were kept. Allocates only when regions change.
std::string sparse_suits(const Codec& codec, std::span<const BucketPlan> buckets);
constexpr int sparse_period = 32;  // exchanges of a bucket from one agreement to the next
std::unique_ptr<Aggregator> make_sparse(AggregatorParts parts);

// About how many bytes a rank sends, if the message of bucket b has bytes[b] bytes.
double sparse_bytes(const AggregatorParts& parts, std::span<const double> bytes);

struct FetchOptions {
  double ratio = 0.01;
  double momentum = 0.9;
  bool masking = true;
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements of each segment that a step moves", Bounds::share());
    v.option("momentum", momentum, "share of the last step's momentum that is kept", {0, 1, false, true});
    v.option("masking", masking, "set the momentum to 0 where a step moved, unless it moves all (ratio=1)");
  }
};

// FetchSGD (Rothchild et al., ICML 2020): momentum and error are kept as sketches, which are the same on every rank. S
// is the linear form of the codec that follows, as in "fetch(0.01) | count_sketch(rows=5, columns=20%)":
//   s = mean over ranks of S(g);  u = momentum*u + s;  e = e + u
//   d = the largest elements of S^-1(e);  e = e - S(d);  u = 0 where S(d) is not 0 (masking);  d is the result
// The learning rate is applied outside, and the optimiser must have no momentum. Bytes sent per rank: one all-reduce of
// the form.
std::string fetch_suits(const FetchOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_fetch(const FetchOptions& options, AggregatorParts parts);
// Implements MethodTraits::bytes_of.
std::size_t fetch_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket);

struct PowerOptions {
  std::int64_t rank = 1;
  double min_rate = 2;
  void visit(OptionVisitor& v) {
    v.option("rank", rank, "columns of each factor", {1, 64});
    v.option("min_rate", min_rate, "matrices that would shrink by a smaller factor than this are sent dense",
             Bounds::at_least(0));
  }
};

// PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019). A tensor of shape (a, b, c ..) is a matrix M of a rows and
// b*c*.. columns. M is the gradient plus the memory. Q is kept from step to step:
//   P = M Q, mean over ranks;  P is made orthonormal;  Q = M^T P, mean over ranks;  the result is P Q^T
// M - P Q^T stays in the memory. One all-reduce carries all P of a bucket, and another one all Q. Tensors that are no
// matrices, or that would shrink by a factor below min_rate, are sent uncompressed along with P.
std::unique_ptr<Aggregator> make_power(const PowerOptions& options, AggregatorParts parts);
// Why the memory does not suit `power`; empty if it does.
std::string power_suits(const PowerOptions& options, const AggregatorParts& parts);
// Implements MethodTraits::bytes_of.
std::size_t power_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket);

}  // namespace sotto
