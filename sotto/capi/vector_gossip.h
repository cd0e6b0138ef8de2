#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "sotto/aggregate/vector_gossiper.h"
#include "sotto/capi/terms.h"
#include "sotto/comm/communicator.h"
#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"

namespace sotto {

struct GossipOptions {
  TopologySpec topology;
  MixingSpec mixing;  // none: the default of the topology
  Recipe codec;
  std::uint64_t seed = 1;
  int codec_threads = 1;
};

// Averages vectors of a user's with those of neighbours, round by round. Serves one thread. After any error except a
// ConfigError it cannot be used, because ranks that lost a message are in different rounds.
class VectorGossip {
 public:
  // Collective. ConfigError if the ranks differ.
  VectorGossip(GossipOptions options, std::shared_ptr<Communicator> communicator);

  // Runs one round in place, and returns the new weight. Collective among neighbours, whose vectors have the same
  // `form`: a text that says which element is where. ConfigError for a wrong weight: nothing was sent, and neighbours
  // wait for the next call. NumericError if a value is not finite, or CommError; neighbours are told of both.
  double mix(std::span<float> values, double weight, std::string_view form);

  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t round() const { return gossiper_->round(); }  // the number of the next one
  Consensus consensus() const;                                // takes O(ranks^3), so it is computed on demand
  std::string topology() const { return gossiper_->topology().text(); }

 private:
  void make(Terms& terms);

  GossipOptions options_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<const Mixing> mixing_;
  std::optional<VectorGossiper> gossiper_;
};

}  // namespace sotto
