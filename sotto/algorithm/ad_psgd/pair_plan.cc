#include "sotto/algorithm/ad_psgd/pair_plan.h"

#include <fmt/format.h>

namespace sotto {

PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each) {
  PairPlan plan{{}, every, each};
  if (!topology.sides().value()[static_cast<std::size_t>(rank)]) return plan;
  for (std::size_t round = 0; round < topology.period(); ++round) {
    const auto& peers = topology.round(round).out(rank);
    plan.peers.insert(plan.peers.end(), peers.begin(), peers.end());
  }
  return plan;
}

std::string no_pairs(const Topology& topology) {
  const std::string name = fmt::format("`{}` of {} ranks", topology.sentence(), topology.ranks());
  if (!topology.bipartite()) {
    return fmt::format(
        "one of two ranks asks and the other answers, and {} has not two such sides; take "
        "bipartite_exponential, bipartite_linear, ring (an even number of ranks), or star (any number)",
        name);
  }
  Graph asked(topology.ranks());
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (const int peer : pair_plan(topology, rank, 1).peers) {
      asked.add(rank, peer);
      asked.add(peer, rank);
    }
  }
  if (asked.connected()) return "";
  return fmt::format(
      "ranks of one side ask those that they send to, and in {} these pairs do not join all ranks; take "
      "a symmetric topology, as bipartite_exponential",
      name);
}

}  // namespace sotto
