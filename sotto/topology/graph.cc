#include "sotto/topology/graph.h"

#include <algorithm>
#include <utility>

#include "sotto/core/random.h"

namespace sotto {
namespace {

// The number of ranks that can be reached from rank 0, rank 0 included. next(rank) gives the ranks one edge further.
template <class Next>
std::size_t reached(int ranks, Next next) {
  std::vector<char> seen(static_cast<std::size_t>(ranks));
  std::vector<int> open{0};
  seen[0] = 1;
  std::size_t count = 0;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    ++count;
    for (const int peer : next(rank)) {
      if (std::exchange(seen[static_cast<std::size_t>(peer)], 1) == 0) open.push_back(peer);
    }
  }
  return count;
}

}  // namespace

void Graph::add(int from, int to) {
  auto& out = out_.at(static_cast<std::size_t>(from));
  if (from == to || std::ranges::find(out, to) != out.end()) return;
  out.push_back(to);
  in_.at(static_cast<std::size_t>(to)).push_back(from);
}

void Graph::add(int from, int to, double share) {
  const std::size_t before = out(from).size();
  add(from, to);
  if (out(from).size() == before) return;
  shares_.resize(out_.size());
  shares_[static_cast<std::size_t>(from)].push_back(share);
}

const std::vector<double>& Graph::shares(int rank) const {
  static const std::vector<double> none;
  return shares_.empty() ? none : shares_.at(static_cast<std::size_t>(rank));
}

void Graph::add(const Graph& other) {
  for (int rank = 0; rank < other.ranks(); ++rank) {
    for (const int peer : other.out(rank)) add(rank, peer);
  }
}

bool Graph::has_shares() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (shares(rank).size() != out(rank).size()) return false;
  }
  return true;
}

bool Graph::symmetric() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    for (const int peer : out(rank)) {
      if (std::ranges::find(out(peer), rank) == out(peer).end()) return false;
    }
  }
  return true;
}

bool Graph::regular() const {
  return std::ranges::all_of(out_, [&](const auto& peers) { return peers.size() == out_.front().size(); }) &&
         std::ranges::all_of(in_, [&](const auto& peers) { return peers.size() == out_.front().size(); });
}

bool Graph::connected() const {
  return reached(ranks(), [&](int rank) { return out(rank); }) == out_.size() &&
         reached(ranks(), [&](int rank) { return in(rank); }) == in_.size();
}

namespace {

int modulo(std::int64_t value, int ranks) { return static_cast<int>((value % ranks + ranks) % ranks); }

// The largest i for which base^i <= limit. REQUIRES limit >= 1.
int integer_log(int limit, int base) {
  int log = 0;
  for (std::int64_t power = base; power <= limit; power *= base) ++log;
  return log;
}

void join(Graph& graph, int a, int b) {
  graph.add(a, b);
  graph.add(b, a);
}

// Tries to give every rank k neighbours; false when no two of the remaining ranks can be joined.
bool join_at_random(Graph& graph, int k, Philox& random) {
  std::vector<int> open;  // holds each rank once for every neighbour that it still lacks
  for (int i = 0; i < graph.ranks() * k; ++i) open.push_back(i / k);
  const auto suits = [&](int a, int b) { return a != b && std::ranges::count(graph.out(a), b) == 0; };
  while (!open.empty()) {
    const bool any =
        std::ranges::any_of(open, [&](int a) { return std::ranges::any_of(open, [&](int b) { return suits(a, b); }); });
    if (!any) return false;
    const std::uint32_t i = random.below(static_cast<std::uint32_t>(open.size()));
    const std::uint32_t j = random.below(static_cast<std::uint32_t>(open.size()));
    if (!suits(open[i], open[j])) continue;
    join(graph, open[i], open[j]);
    open.erase(open.begin() + std::max(i, j));
    open.erase(open.begin() + std::min(i, j));
  }
  return true;
}

}  // namespace

Graph shift(int ranks, int offset) {
  Graph graph(ranks);
  for (int rank = 0; rank < ranks; ++rank) graph.add(rank, modulo(rank + std::int64_t{offset}, ranks));
  return graph;
}

Graph pairs(int ranks, int offset) {
  Graph graph(ranks);
  for (int rank = 1; rank < ranks; rank += 2) join(graph, rank, modulo(rank + std::int64_t{offset}, ranks));
  return graph;
}

std::vector<int> distinct_offsets(int ranks, const std::vector<std::int64_t>& offsets) {
  std::vector<int> distinct;
  for (const std::int64_t offset : offsets) {
    const int found = modulo(offset, ranks);
    if (found != 0 && std::ranges::count(distinct, found) == 0) distinct.push_back(found);
  }
  return distinct;
}

std::vector<int> exponential_offsets(int ranks) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; ranks > 1 && i <= integer_log(ranks - 1, 2); ++i) {
    offsets.insert(offsets.end(), {std::int64_t{1} << i, -(std::int64_t{1} << i)});
  }
  return distinct_offsets(ranks, offsets);
}

std::vector<int> linear_offsets(int ranks) {
  std::vector<std::int64_t> offsets;
  for (int i = 1; i < ranks; i += 2) offsets.insert(offsets.end(), {i, -i});
  return distinct_offsets(ranks, offsets);
}

std::vector<int> bipartite_offsets(int ranks) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; ranks > 1 && i <= integer_log(ranks - 1, 2); ++i) {
    const std::int64_t distance = i == 0 ? 1 : 1 + (std::int64_t{1} << i);
    offsets.insert(offsets.end(), {distance, -distance});
  }
  return distinct_offsets(ranks, offsets);
}

std::vector<int> peer_offsets(int ranks, int n) {
  std::vector<std::int64_t> offsets;
  std::int64_t power = 1;
  for (int i = 0; ranks > 1 && i <= integer_log(ranks - 1, n + 1); ++i, power *= n + 1) {
    for (int j = 1; j <= n; ++j) offsets.push_back(j * power);
  }
  return distinct_offsets(ranks, offsets);
}

std::vector<Graph> torus(int ranks, int rows) {
  const int columns = ranks / rows;
  std::vector<Graph> graphs;
  for (const auto& [down, right] : {std::pair{0, 1}, {0, -1}, {1, 0}, {-1, 0}}) {
    Graph graph(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const int row = modulo(rank / columns + down, rows), column = modulo(rank % columns + right, columns);
      graph.add(rank, row * columns + column);
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

std::vector<Graph> hypercube(int ranks) {
  std::vector<Graph> graphs;
  for (int bit = 1; bit < ranks; bit *= 2) {
    Graph graph(ranks);
    for (int rank = 0; rank < ranks; ++rank) graph.add(rank, rank ^ bit);
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

Graph star(int ranks) {
  Graph graph(ranks);
  for (int rank = 1; rank < ranks; ++rank) join(graph, 0, rank);
  return graph;
}

Graph random_regular(int ranks, int k, std::uint64_t seed) {
  Philox random(seed, Purpose::shuffle);
  while (true) {
    Graph graph(ranks);
    if (join_at_random(graph, k, random) && graph.connected()) return graph;
  }
}

std::vector<Graph> groups(int ranks, int size) {
  Graph within(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 1; i < size; ++i) within.add(rank, rank / size * size + (rank + i) % size);
  }
  std::vector<Graph> graphs;
  for (const int offset : peer_offsets(ranks / size, 1)) {
    if (size > 1) graphs.push_back(within);
    graphs.push_back(shift(ranks, offset * size));
  }
  if (graphs.empty()) graphs.push_back(within);
  return graphs;
}

}  // namespace sotto
