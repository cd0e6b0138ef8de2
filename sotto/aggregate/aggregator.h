#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/codec/codec.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/table.h"

namespace sotto {

// Seconds that a rank spent on each part of its exchanges. Waiting for a slower peer counts as network time.
struct Timings {
  double encode = 0, network = 0, decode = 0;

  Timings& operator+=(const Timings& other) {
    encode += other.encode;
    network += other.network;
    decode += other.decode;
    return *this;
  }
};

// Averages what all ranks hold, using a codec, a memory and a communicator. Serves one thread. Makes no allocation
// itself after the first step.
class Aggregator {
 public:
  virtual ~Aggregator() = default;
  virtual std::string_view name() const = 0;  // the name of the aggregator that it chose, if it chose one
  // What the aggregator chose while it ran, and why: "aggregator: gather, ...". Empty if nothing was chosen, or not
  // yet.
  virtual std::string remark() const { return ""; }
  // Collective; all ranks pass their buckets in the same order. Replaces bucket.values with the mean over all ranks,
  // with the same bits on every rank. The mean lacks what memories hold back and codecs lose. The memory is settled
  // only after the exchange. NumericError if a value is not finite.
  virtual void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
                       Timings& timings) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  // Visits the part of the state that must be the same on all ranks, and that all of them keep when their group
  // changes: a rank that is new in the group gets it from another one. Warm starts and choices are not part of it: when
  // the group changes, they start over on all ranks.
  virtual void visit_shared(StateVisitor& /*visitor*/) {}
  // Moves into the memory everything that the aggregator holds back elsewhere. Called before a successor, or another
  // group of ranks, takes over the memory alone.
  virtual void retire() {}
};

// What an aggregator is built from. An aggregator that takes over from another one gets the same memory and codec.
struct AggregatorParts {
  std::shared_ptr<Memory> memory;
  MemorySpec memory_spec;  // what `memory` was made from, to make another one like it
  std::shared_ptr<Codec> codec;
  std::shared_ptr<ThreadPool> pool;  // used by one codec at a time; null: the calling thread works alone
  std::vector<BucketPlan> buckets;
  int rank = 0, ranks = 1;

  void visit_state(StateVisitor& visitor) const {
    memory->visit_state(visitor);
    codec->visit_state(visitor);
  }
};

// Properties of an aggregator that is a method itself: users write it in place of a codec's stages, as in
// "power(rank=2) | f16". AggregatorParts::codec is then the linear codec that follows it.
struct MethodTraits {
  std::string_view (*memory)(const AnyOptions& options);  // used if the user names none; empty: none
  bool momentum;                                          // makes the momentum itself, so the optimiser must have none
  bool forms;                 // sums linear forms, so any linear codec may follow; if false, only a cast may
  bool holds;                 // keeps its residual in forms of that codec, as state named memory.*
  bool joins_late;            // a rank without the state of earlier steps may take part, if it sends zeros
  bool matrices;              // compresses segments of two dimensions or more; others are sent whole
  std::string_view contract;  // what becomes of a vector, in words
  std::string_view bytes;     // bytes sent, as a formula in words
  // Bytes of the forms that a rank sums for a bucket of this layout; null if they are not known beforehand.
  std::size_t (*bytes_of)(const AnyOptions& options, Codec& codec, const Layout& bucket);
};

// A line of the table of aggregators.
struct AggregatorEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  AnyOptions (*options)();
  // Why it cannot be used with these parts, in words; empty if it can. Their memory is not made for their buckets yet.
  std::string (*suits)(const AnyOptions& options, const AggregatorParts& parts);
  std::unique_ptr<Aggregator> (*make)(const AnyOptions& options, AggregatorParts parts);
  const MethodTraits* method = nullptr;  // null: only the option `aggregator` names it
};
using AggregatorSpec = Spec<AggregatorEntry>;
const Table<AggregatorEntry>& aggregator_table();

// An empty spec makes the one that chooses (make_auto).
std::unique_ptr<Aggregator> make_aggregator(const AggregatorSpec& aggregator, AggregatorParts parts);
// Why the aggregator cannot be used with these parts, in words; empty if it can.
std::string why_not(const AggregatorSpec& aggregator, const AggregatorParts& parts);
// The aggregator that an option of another one names: "auto" (an empty spec), or one that is not a method and has no
// options. nullopt if there is none of that name.
std::optional<AggregatorSpec> aggregator_named(std::string_view name);
// The error text for an unknown name. `simple`: list only aggregators without options.
std::string unknown_aggregator(std::string_view name, bool simple);

// NumericError, which names the tensor, rank and step, if a value of the bucket is NaN or infinite. `what` names the
// values in the error: StepContext::what, or "mean".
void require_finite(const Bucket& bucket, const Key& key, std::string_view what);

}  // namespace sotto
