#include "sotto/algorithm/gossip/changing_peers.h"

#include <algorithm>

#include "sotto/topology/table.h"

namespace sotto {

ChangingPeers::ChangingPeers(const AlgorithmOptions& options, int ranks) : phases_(options.topologies), ranks_(ranks) {}

std::optional<Topology> ChangingPeers::begun(std::uint64_t step) {
  const auto begins = [&](const TopologyPhase& phase) { return phase.first_step <= step; };
  const auto begun = static_cast<std::size_t>(std::ranges::count_if(phases_, begins));
  if (begun == phases_begun_) return std::nullopt;
  phases_begun_ = begun;
  return make_topology("--topology", phases_[begun - 1].topology, ranks_);
}

std::uint64_t ChangingPeers::spread(const Topology& first) const {
  std::uint64_t longest = first.spread();
  for (const TopologyPhase& phase : phases_) {
    longest = std::max<std::uint64_t>(longest, make_topology("--topology", phase.topology, ranks_).spread());
  }
  return longest;
}

}  // namespace sotto
