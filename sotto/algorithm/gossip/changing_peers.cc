#include "sotto/algorithm/gossip/changing_peers.h"

#include <algorithm>

#include "sotto/topology/table.h"

namespace sotto {

ChangingPeers::ChangingPeers(const AlgorithmOptions& options, int ranks)
    : first_(options.topology), phases_(options.topologies), ranks_(ranks) {}

std::shared_ptr<const Topology> ChangingPeers::begun(std::uint64_t step) {
  const auto begins = [&](const TopologyPhase& phase) { return phase.first <= step; };
  const auto begun = static_cast<std::size_t>(std::ranges::count_if(phases_, begins));
  if (begun == phases_begun_) return nullptr;
  phases_begun_ = begun;
  return std::make_shared<const Topology>(make_topology(phases_[begun - 1].topology, ranks_));
}

std::uint64_t ChangingPeers::rounds_to_reach_all() const {
  const auto of = [this](const TopologySpec& topology) {
    return std::uint64_t{make_topology(topology, ranks_).rounds_to_reach_all()};
  };
  std::uint64_t rounds = of(first_);
  for (const TopologyPhase& phase : phases_) rounds += of(phase.topology);
  return rounds;
}

}  // namespace sotto
