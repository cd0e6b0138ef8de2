#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/round.h"
#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"
#include "sotto/topology/topology.h"

namespace sotto {

// The peers that a rank asks, in turn; a rank without peers only answers. `every`: the rank asks at most once in
// `every` of its own steps; 0: it asks again as soon as it has an answer. `each`: all ranks make the same number of
// steps; otherwise as many as they can, and the sum over all ranks counts.
struct PairPlan {
  std::vector<int> peers;
  std::uint64_t every = 1;
  bool each = false;
};

// Ranks on the side of the topology without rank 0 ask; each asks the ranks that it sends to. REQUIRES a topology with
// two sides.
PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each = false);
// Why there is no such plan; empty if there is one.
std::string no_pairs(const Topology& topology);

// Moves a model x half of the way to other models, one at a time: x = x + (C(y) - C(x)) / 2, with C(x) as it was when
// it was offered. The other model does the same, so the sum of both does not change, whatever C rounds off and whatever
// is added to x between offer() and move(). An offer has one message per bucket, one after the other.
class PairedModel {
 public:
  // ConfigError for a codec that may not be used on models.
  PairedModel(const Recipe& codec, std::span<const BucketPlan> buckets,
              const std::shared_ptr<ThreadPool>& pool = nullptr);

  std::size_t max_bytes() const;  // size of an offer
  // Appends x to `letter`, encoded as it is now.
  void offer(std::span<float> x, const Key& key, std::vector<std::byte>& letter);
  // Checks and opens the other rank's offer, whose bytes must stay valid until move(). WireError.
  void open(std::span<const std::byte> offer, const Expected& expected);
  // Moves x towards the offer that was opened last. `own` is the offer of x that the other model moves towards.
  void move(std::span<float> x, std::span<const std::byte> own);
  void visit_state(StateVisitor& visitor);

 private:
  struct Part {
    BucketPlan plan;
    std::shared_ptr<Codec> codec;
    Encoder encoder;
    Message message;  // of offer(), reused
    std::unique_ptr<MessageReader> own, theirs;

    Range whole() const { return {0, plan.layout.size()}; }
  };
  Bucket bucket(std::span<float> x, std::size_t index) const;

  std::vector<Part> parts_;
};

}  // namespace sotto
