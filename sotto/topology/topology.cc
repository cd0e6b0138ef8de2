#include "sotto/topology/topology.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sotto {
Topology::Topology(std::string text, std::vector<Graph> cycle, std::size_t peers) : text_(std::move(text)) {
  const std::size_t length = cycle.size();
  peers_ = peers == 0 ? length : std::min(peers, length);
  for (std::size_t round = 0; round < length / std::gcd(length, peers_); ++round) {
    Graph graph = cycle[round * peers_ % length];  // keeps its shares if it is the round's only graph
    for (std::size_t i = 1; i < peers_; ++i) graph.add(cycle[(round * peers_ + i) % length]);
    rounds_.push_back(std::move(graph));
  }
}

bool Topology::has_shares() const { return std::ranges::all_of(rounds_, &Graph::has_shares); }

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

std::size_t Topology::rounds_to_reach_all() const {
  // `known` and `before` hold a bit set for each rank: the ranks that it has heard from. A thousand ranks take
  // milliseconds.
  constexpr std::size_t word_bits = 64;
  const auto size = static_cast<std::size_t>(ranks());
  const std::size_t words = (size + word_bits - 1) / word_bits;
  std::vector<std::uint64_t> all(words, ~std::uint64_t{0}), known(size * words), before(size * words);
  if (size % word_bits != 0) all.back() >>= word_bits - size % word_bits;
  std::size_t most = 0;
  for (std::size_t first = 0; first < period(); ++first) {
    std::ranges::fill(known, 0);
    for (std::size_t rank = 0; rank < size; ++rank) {
      known[rank * words + rank / word_bits] = std::uint64_t{1} << (rank % word_bits);
    }
    const auto all_know = [&] {
      for (std::size_t rank = 0; rank < size; ++rank) {
        if (!std::equal(all.begin(), all.end(), known.begin() + static_cast<std::ptrdiff_t>(rank * words)))
          return false;
      }
      return true;
    };
    std::size_t rounds = 0;
    for (; !all_know(); ++rounds) {
      std::swap(before, known);
      const Graph& graph = round(first + rounds);
      for (std::size_t rank = 0; rank < size; ++rank) {
        std::uint64_t* const own = known.data() + rank * words;
        std::copy_n(before.data() + rank * words, words, own);
        for (const int peer : graph.in(static_cast<int>(rank))) {
          const std::uint64_t* const from = before.data() + static_cast<std::size_t>(peer) * words;
          for (std::size_t w = 0; w < words; ++w) own[w] |= from[w];
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
  for (const Graph& graph : rounds_) all.add(graph);
  return all;
}

}  // namespace sotto
