#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/topology/topology.h"

namespace sotto {

// The topologies of a run whose peers change on the way (AlgorithmOptions::topologies).
class ChangingPeers {
 public:
  ChangingPeers(const AlgorithmOptions& options, int ranks);
  // The topology that begins with this step, or null if it is the one that the last call found.
  std::shared_ptr<const Topology> begun(std::uint64_t step);
  // Rounds after which every rank has heard of every other one, wherever in the run they are: with each of these
  // topologies and the first one in turn.
  std::uint64_t rounds_to_reach_all() const;

 private:
  TopologySpec first_;
  std::vector<TopologyPhase> phases_;
  int ranks_;
  std::size_t phases_begun_ = 0;
};

}  // namespace sotto
