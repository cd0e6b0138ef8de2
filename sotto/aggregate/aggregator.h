#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/codec/codec.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/table.h"

namespace sotto {

// Seconds that a rank spent on each part of its exchanges. Waiting for a slower peer counts as network.
struct Timings {
  double encode = 0, network = 0, decode = 0;

  Timings& operator+=(const Timings& other) {
    encode += other.encode;
    network += other.network;
    decode += other.decode;
    return *this;
  }
};

// Makes the mean of what all ranks hold, out of a codec, a memory and a communicator. Serves one thread. After the
// first step it allocates nothing of its own.
class Aggregator {
 public:
  virtual ~Aggregator() = default;
  virtual std::string_view name() const = 0;  // of the one at work, where another one chose it
  // What was chosen while it ran, and why: "aggregator: gather, ...". Empty: nothing, or not yet.
  virtual std::string remark() const { return ""; }
  // Collective, buckets in the same order on every rank: bucket.values becomes the mean over ranks of what each one's
  // memory and codec made of its own, with the same bits on every rank. The memory is settled only after the exchange.
  // NumericError when a value is not finite.
  virtual void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
                       Timings& timings) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  // Moves what it holds back outside its memory, if anything, into the memory: before a successor, or other ranks, take
  // over what the memory holds and nothing else.
  virtual void retire() {}
};

// What an aggregator is built from. An aggregator that takes over from another one has the same memory and codec.
struct AggregatorParts {
  std::shared_ptr<Memory> memory;
  MemorySpec memory_spec;  // what that was made of, for whoever wants another one of the kind
  std::shared_ptr<Codec> codec;
  std::shared_ptr<ThreadPool> pool;  // of the codecs, which are used one at a time; null: the caller alone
  std::vector<BucketPlan> buckets;
  int rank = 0, ranks = 1;
};

// What is to be said of an aggregator that is a method of its own: it stands in a sentence in place of a codec's
// stages, as in "power(rank=2) | f16". The codec of its parts is what follows it, and linear.
struct MethodTraits {
  std::string_view memory;    // that it has where the sentence names none
  bool momentum;              // makes the momentum itself, so that the optimiser must have none
  bool forms;                 // any linear codec may follow it, as what is summed are its forms; else a cast alone
  bool holds;                 // keeps what it did not send in forms of that codec, which it calls memory.*
  std::string_view contract;  // what becomes of a vector
  std::string_view bytes;     // a formula
  // Of these bytes, those that a rank puts into its sums; null where nobody knows beforehand.
  std::size_t (*bytes_of)(const AnyOptions& options, Codec& codec, const Layout& bucket);
};

// A line of the table of aggregators.
struct AggregatorEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  AnyOptions (*options)();
  // Why these parts cannot be had with it, in words; empty: they can. The memory is not for these buckets yet.
  std::string (*suits)(const AnyOptions& options, const AggregatorParts& parts);
  std::unique_ptr<Aggregator> (*make)(const AnyOptions& options, AggregatorParts parts);
  const MethodTraits* method = nullptr;  // null: it is asked for beside the sentence
};
using AggregatorSpec = Spec<AggregatorEntry>;
const Table<AggregatorEntry>& aggregator_table();

// Of no spec: the one that chooses (auto.h).
std::unique_ptr<Aggregator> make_aggregator(const AggregatorSpec& aggregator, AggregatorParts parts);
// Why it cannot be had with these parts, in words; empty: it can.
std::string why_not(const AggregatorSpec& aggregator, const AggregatorParts& parts);
// An aggregator that an option of another one names: "auto", or one that is asked for beside a sentence and has no
// options of its own. Nothing: there is none of that name.
std::optional<AggregatorSpec> aggregator_named(std::string_view name);
// What to say then; `simple`: of an aggregator without options.
std::string unknown_aggregator(std::string_view name, bool simple);

// NumericError, which names the tensor, rank and step, when a value of the bucket is NaN or infinite.
void require_finite(const Bucket& bucket, const Key& key);

}  // namespace sotto
