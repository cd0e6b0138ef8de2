#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/topology/topology.h"

namespace sotto {

// Where peers change on the way, as `topologies` of the options say.
class ChangingPeers {
 public:
  ChangingPeers(const AlgorithmOptions& options, int ranks);
  // The topology that begins with this step, if another one does than what the last call found.
  std::optional<Topology> begun(std::uint64_t step);
  // Rounds after which every rank has heard of every other one, with that topology or any of these.
  std::uint64_t spread(const Topology& first) const;

 private:
  std::vector<TopologyPhase> phases_;
  int ranks_;
  std::size_t phases_begun_ = 0;
};

}  // namespace sotto
