#include "sotto/algorithm/ad_psgd/pair_plan.h"

#include <fmt/format.h>

namespace sotto {
namespace {

// Calls `f` with each peer that `rank` asks, in turn, if it is on the side of those that ask.
template <class F>
void for_peers(const Topology& topology, const std::vector<bool>& sides, int rank, F f) {
  if (!sides[static_cast<std::size_t>(rank)]) return;
  for (std::size_t round = 0; round < topology.period(); ++round) {
    for (const int peer : topology.round(round).out(rank)) f(peer);
  }
}

}  // namespace

PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each) {
  PairPlan plan{{}, every, each};
  for_peers(topology, topology.sides().value(), rank, [&](int peer) { plan.peers.push_back(peer); });
  return plan;
}

std::string no_pairs(const Topology& topology) {
  const std::string name = fmt::format("`{}` of {} ranks", topology.text(), topology.ranks());
  const auto sides = topology.sides();
  if (!sides) {
    return fmt::format(
        "one of two ranks asks and the other answers, and {} has not two such sides; take "
        "bipartite_exponential, bipartite_linear, ring (an even number of ranks), or star (any number)",
        name);
  }
  Graph asked(topology.ranks());
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for_peers(topology, *sides, rank, [&](int peer) {
      asked.add(rank, peer);
      asked.add(peer, rank);
    });
  }
  if (asked.connected()) return "";
  return fmt::format(
      "ranks of one side ask those that they send to, and in {} these pairs do not join all ranks; take "
      "a symmetric topology, as bipartite_exponential",
      name);
}

}  // namespace sotto
