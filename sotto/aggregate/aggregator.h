#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/method.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/sentence.h"

namespace sotto {

// Seconds that a rank spent on each part of its exchanges. Waiting for a slower peer counts as network.
struct Phases {
  double encode = 0, network = 0, decode = 0;

  Phases& operator+=(const Phases& other) {
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
  virtual void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  // Moves what it holds back outside its memory, if anything, into the memory: before a successor, or other ranks, take
  // over what the memory holds and nothing else.
  virtual void retire() {}
};

// What an aggregator is built from. An aggregator that takes over from another one has the same memory and codec.
struct AggregatorParts {
  std::shared_ptr<Memory> memory;
  std::shared_ptr<Codec> codec;
  std::shared_ptr<Workers> workers;  // of the codecs, which are used one at a time; null: the caller alone
  std::vector<BucketPlan> buckets;
  int rank = 0, ranks = 1;
  std::string asked = "auto";  // the aggregator that the user asked for, with every option named
};

// A line of the table of aggregators. `suits` is empty when the codec can be used with it, else says why not. Those
// that have options are asked for in a sentence of one call, which their parts have as `asked`: then help() has one
// line an option, canonical() the call with every option named, and fits() is suits() of such a sentence.
struct AggregatorEntry {
  std::string_view name;
  std::string_view summary;
  std::string (*suits)(const Codec& codec, std::span<const BucketPlan> buckets);
  std::unique_ptr<Aggregator> (*make)(AggregatorParts parts);
  std::string (*help)() = nullptr;
  std::string (*canonical)(const Sentence& sentence, const Call& call) = nullptr;
  std::string (*fits)(std::string_view asked, const Codec& codec, std::span<const BucketPlan> buckets) = nullptr;
};
std::span<const AggregatorEntry> aggregator_table();
// Their options, for help.
std::string aggregator_options();

// Aggregators that are methods of their own: they have options, and stand in a sentence in place of a codec's stages,
// as in "power(rank=2) | f16". The codec of their parts is what follows them, and linear. `memory` is theirs where the
// sentence names none; `contract` says what becomes of a vector; `bytes` is a formula, and bytes_of() what of them a
// rank puts into its sums, null where nobody knows beforehand; help() has one line an option; canonical() is the call
// with every option named; suits() says why the codec, memory or asked aggregator of such parts cannot be had with it,
// else nothing.
struct MethodEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::string_view memory;
  bool momentum;  // makes the momentum itself, so that the optimiser must have none
  bool forms;     // any linear codec may follow it, as what is summed are its forms; else a cast alone
  bool holds;     // keeps what it did not send in forms of that codec, which it calls memory.*
  std::string_view contract;
  std::string_view bytes;
  std::size_t (*bytes_of)(const Sentence& sentence, const Call& call, const Codec& codec, const Layout& bucket);
  std::string (*help)();
  std::string (*canonical)(const Sentence& sentence, const Call& call);
  std::string (*suits)(const AggregatorParts& parts);
  std::unique_ptr<Aggregator> (*make)(const Sentence& sentence, const Call& call, AggregatorParts parts);
};
std::span<const MethodEntry> method_table();

// A sentence taken apart, with everything that it implies, and every part of it checked. ConfigError, which begins with
// `where`.
Method read_method(std::string_view where, std::string_view method);
// What is to be said against a method that may be used all the same; empty: nothing. A memory wants a codec that leaves
// out less than the whole, and the bound of an unbiased one is that of the worst vector.
std::string doubt_about(std::string_view where, std::string_view method, std::span<const BucketPlan> buckets);
// The part of a method that makes the momentum itself, so that the optimiser must have none; empty: nothing does.
std::string momentum_of(std::string_view where, const Method& method);
// What a method holds back from step to step, and nobody else could take over: "ef", or "fetch of count_sketch(..)";
// empty: nothing. What two methods name alike goes over from one to the other (Phased).
std::string held_by(std::string_view where, const Method& method);
// The method without its codec: "ef | f32", which holds nothing back, but makes the momentum that its memory makes.
std::string without_codec(std::string_view where, std::string_view method);
// A whole method with every option named, as it stands in checkpoints: "ef | topk(ratio=0.01, scope=segment,
// dense=1024) | f32".
std::string canonical_method(std::string_view where, std::string_view method);

// NumericError, which names the tensor, rank and step, when a value of the bucket is NaN or infinite.
void require_finite(const Bucket& bucket, const Key& key);

// `method` is a whole sentence, memory included: "ef | topk(0.01) | qsgd(4)". `name` is an entry of the table or
// "auto" (auto.h), or a call of one that has options, and is left to "auto" where the method is an aggregator itself.
// `workers` are those of make_codec(). ConfigError when they do not fit, which begins with `where`: "--codec" or
// "codec", which has "--aggregator" or "aggregator" beside it.
std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets, int rank, int ranks,
                                            std::shared_ptr<Workers> workers = nullptr);
// For the ranks of a communicator.
std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets, const Communicator& communicator,
                                            std::shared_ptr<Workers> workers = nullptr);
// Throws what make_aggregator() would throw, and makes nothing of the size of the buckets.
void check_aggregator(std::string_view where, std::string_view name, std::string_view method,
                      std::span<const BucketPlan> buckets);

// The entry of the table of this name, or "auto", with the codec and memory of the parts.
std::unique_ptr<Aggregator> make_named(std::string_view where, std::string_view name, AggregatorParts parts);

}  // namespace sotto
