#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sotto/aggregate/gossiper.h"

namespace sotto {

struct VectorGossiperOptions {
  Recipe codec = {};                               // none, f16 or bf16: vectors are exchanged whole
  std::shared_ptr<const Mixing> mixing = nullptr;  // null: the default of the topology
  std::uint64_t seed = 1;                          // of all random numbers; the same on every rank
  std::shared_ptr<ThreadPool> pool = nullptr;      // shares out the work of the codec; null: the calling thread alone
};

// Averages a flat vector of a user's own with those of neighbours, round by round. A rank waits for its neighbours
// alone.
//
//   VectorGossiper gossiper(communicator, topology);
//   gossiper.average(vector, 3);  // after three rounds nearer to the mean of all ranks
//
// All ranks make one with the same topology and options, and begin with the same round. Serves one thread. The
// communicator must outlive it.
class VectorGossiper {
 public:
  // ConfigError when the codec, the mixing and the topology do not fit together, or the communicator has another number
  // of ranks.
  VectorGossiper(Communicator& communicator, Topology topology, VectorGossiperOptions options = {});

  // So many rounds of push-sum, in place: what they begin with has the weight 1, and is divided by its weight in the
  // end. Collective among neighbours: they have vectors of the same size, which may change from call to call.
  // NumericError for a value that is not finite, CommError and WireError for what peers do.
  void average(std::span<float> vector, int rounds = 1);
  // A single round of a vector that has a weight above 0; returns its new weight. The vector over its weight nears the
  // mean. An error changes the vector by rounding at most, and does not count as a round. std::invalid_argument for
  // another weight.
  double mix(std::span<float> vector, double weight);

  std::uint64_t round() const { return round_; }  // the number of the next one
  const Topology& topology() const { return *topology_; }
  const Timings& timings() const { return timings_; }  // seconds of all rounds together

 private:
  Gossiper& gossiper_of(std::size_t size);

  Communicator& communicator_;
  std::shared_ptr<const Topology> topology_;
  VectorGossiperOptions options_;
  std::optional<Gossiper> gossiper_;  // of vectors of the last size
  std::uint64_t round_ = 0;
  Timings timings_;
};

}  // namespace sotto
