#include "sotto/topology/topology.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sotto {
Topology::Topology(std::string sentence, std::vector<Graph> cycle, std::size_t peers)
    : sentence_(std::move(sentence)), cycle_(std::move(cycle)) {
  const std::size_t length = cycle_.size();
  peers_ = peers == 0 ? length : std::min(peers, length);
  for (std::size_t round = 0; round < length / std::gcd(length, peers_); ++round) {
    Graph graph(ranks());
    for (std::size_t i = 0; i < peers_; ++i) graph.add(cycle_[(round * peers_ + i) % length]);
    rounds_.push_back(std::move(graph));
  }
}

bool Topology::symmetric() const {
  return std::ranges::all_of(rounds_, [](const Graph& graph) { return graph.symmetric(); });
}

bool Topology::regular() const {
  return std::ranges::all_of(rounds_, [](const Graph& graph) { return graph.regular(); });
}

bool Topology::bipartite() const {
  for (const Graph& graph : cycle_) {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (std::ranges::any_of(graph.out(rank), [&](int peer) { return (peer - rank) % 2 == 0; })) return false;
    }
  }
  return true;
}

bool Topology::connected() const {
  Graph all(ranks());
  for (const Graph& graph : cycle_) all.add(graph);
  return all.connected();
}

}  // namespace sotto
