#include "sotto/topology/topology.h"

#include <algorithm>
#include <functional>
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

std::optional<std::vector<bool>> Topology::sides() const {
  const Graph all = all_rounds();
  std::vector<std::optional<bool>> side(static_cast<std::size_t>(ranks()));
  std::vector<int> open{0};
  side[0] = false;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    const bool other = !*side[static_cast<std::size_t>(rank)];
    for (const int peer : all.out(rank)) {
      auto& found = side[static_cast<std::size_t>(peer)];
      if (!found) open.push_back(peer);
      if (found.value_or(other) != other) return std::nullopt;
      found = other;
    }
  }
  std::vector<bool> sides;
  for (const auto& found : side) sides.push_back(found.value());
  return sides;
}

std::size_t Topology::spread() const {
  using Known = std::vector<std::vector<bool>>;  // of each rank: from whom it has heard
  const auto size = static_cast<std::size_t>(ranks());
  std::size_t most = 0;
  for (std::size_t first = 0; first < period(); ++first) {
    Known known(size, std::vector<bool>(size));
    for (std::size_t rank = 0; rank < size; ++rank) known[rank][rank] = true;
    const auto all = [](const std::vector<bool>& heard) { return std::ranges::all_of(heard, std::identity()); };
    std::size_t rounds = 0;
    for (; !std::ranges::all_of(known, all); ++rounds) {
      const Known before = known;
      for (std::size_t rank = 0; rank < size; ++rank) {
        for (const int peer : round(first + rounds).in(static_cast<int>(rank))) {
          const auto& heard = before[static_cast<std::size_t>(peer)];
          for (std::size_t i = 0; i < size; ++i) known[rank][i] = known[rank][i] || heard[i];
        }
      }
    }
    most = std::max(most, rounds);
  }
  return most;
}

bool Topology::connected() const { return all_rounds().connected(); }

Graph Topology::all_rounds() const {
  Graph all(ranks());
  for (const Graph& graph : cycle_) all.add(graph);
  return all;
}

}  // namespace sotto
