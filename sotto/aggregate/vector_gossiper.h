#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sotto/aggregate/gossiper.h"

namespace sotto {

struct VectorGossiperOptions {
  Recipe codec = {};                               // none, f16 or bf16, because vectors are exchanged whole
  std::shared_ptr<const Mixing> mixing = nullptr;  // null: the default of the topology
  std::uint64_t seed = 1;                          // of all random numbers; the same on every rank
  std::shared_ptr<ThreadPool> pool = nullptr;      // shares the work of the codec; null: the calling thread alone
};

// Averages a user's own flat vector with its neighbours' vectors, round by round. A rank waits only for its neighbours.
//
//   VectorGossiper gossiper(communicator, topology);
//   gossiper.average(vector, 3);  // after three rounds nearer to the mean of all ranks
//
// All ranks must make one with the same topology and options, and begin with the same round. Serves one thread. The
// communicator must outlive it.
class VectorGossiper {
 public:
  // ConfigError if codec, mixing and topology do not fit together, or the communicator has another number of ranks.
  VectorGossiper(Communicator& communicator, Topology topology, VectorGossiperOptions options = {});

  // Runs `rounds` rounds of push-sum in place: the vector starts with weight 1, and is divided by its weight at the
  // end. Collective among neighbours: their vectors have the same size, which may change from call to call.
  // NumericError if a value that is sent or received is not finite, CommError and WireError for failures of peers. Then
  // the vector holds the result of the rounds before, divided by its weight.
  void average(std::span<float> vector, int rounds = 1);
  // Runs one round on a vector of the given `weight`, and returns its new weight. The vector over its weight approaches
  // the mean. A round that throws changes the vector by rounding at most, and is not counted. std::invalid_argument if
  // the weight is not above 0.
  double mix(std::span<float> vector, double weight);

  std::uint64_t round() const { return round_; }  // the number of the next one
  const Topology& topology() const { return *topology_; }
  const Timings& timings() const { return timings_; }  // total seconds of all rounds
  // The round, for a checkpoint: there is no other state. All ranks must continue with the same one.
  void visit_state(StateVisitor& visitor) { visitor.visit("round", round_); }

 private:
  Gossiper& gossiper_of(std::size_t size);

  Communicator& communicator_;
  std::shared_ptr<const Topology> topology_;
  VectorGossiperOptions options_;
  std::optional<Gossiper> gossiper_;  // for vectors of the last size
  std::uint64_t round_ = 0;
  Timings timings_;
};

}  // namespace sotto
