#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sotto {

// Who sends to whom in one round of gossip: a directed graph without loops.
class Graph {
 public:
  explicit Graph(int ranks) : out_(static_cast<std::size_t>(ranks)), in_(out_.size()) {}

  int ranks() const { return static_cast<int>(out_.size()); }
  // Adds an edge. Repeated edges and edges of a rank to itself are ignored.
  void add(int from, int to);
  // Adds an edge over which `from` sends this share of its value. Give shares to all edges of a graph or to none.
  void add(int from, int to, double share);
  // The edges of another graph, without their shares.
  void add(const Graph& other);

  // The receivers and the senders of a rank, in the order in which their edges were added.
  const std::vector<int>& out(int rank) const { return out_.at(static_cast<std::size_t>(rank)); }
  const std::vector<int>& in(int rank) const { return in_.at(static_cast<std::size_t>(rank)); }
  // The share that each rank of out(rank) gets of this rank's value; empty when the graph has no shares.
  const std::vector<double>& shares(int rank) const;
  bool has_shares() const;  // every edge has a share (true for a graph without edges)

  bool symmetric() const;  // every edge has its reverse
  bool regular() const;    // all ranks have the same number of receivers, and as many senders
  bool connected() const;  // strongly: every rank reaches every other one along the edges
  bool operator==(const Graph&) const = default;

 private:
  std::vector<std::vector<int>> out_, in_;
  std::vector<std::vector<double>> shares_;  // of each rank, as in out_; empty when no edge has one
};

// The elementary graphs that topologies consist of, in the order in which rounds take them. With one rank they have no
// edges.

// Every rank r sends to rank r + offset.
Graph shift(int ranks, int offset);
// Every odd rank r exchanges with the even rank r + offset. REQUIRES an odd offset and an even number of ranks.
Graph pairs(int ranks, int offset);

// The offsets modulo `ranks`, in the same order, without 0 and repetitions.
std::vector<int> distinct_offsets(int ranks, const std::vector<std::int64_t>& offsets);
// The offsets of the published graphs: 1, -1, 2, -2, 4, -4 .. and 1, -1, 3, -3, 5, -5 .., both up to ranks - 1.
std::vector<int> exponential_offsets(int ranks);
std::vector<int> linear_offsets(int ranks);
// 1, -1, 1 + 2, -(1 + 2), 1 + 4, -(1 + 4) ..
std::vector<int> bipartite_offsets(int ranks);
// j (n + 1)^i for i = 0, 1 .. and j = 1 .. n.
std::vector<int> peer_offsets(int ranks, int n);

// A grid of `rows` rows whose ends meet: one graph for each of the four directions. REQUIRES ranks % rows == 0.
std::vector<Graph> torus(int ranks, int rows);
// One graph for each dimension. REQUIRES a power of two.
std::vector<Graph> hypercube(int ranks);
// Every rank exchanges with rank 0.
Graph star(int ranks);
// A connected graph in which every rank has k neighbours, drawn about uniformly from all such graphs (Steger, Wormald,
// 1999). REQUIRES k < ranks, an even k * ranks, and k > 1 unless there are two ranks.
Graph random_regular(int ranks, int k, std::uint64_t seed);
// Two graphs for each distance d = 1, 2, 4 ..: in the first all ranks of a group of `size` exchange with each other; in
// the second every rank sends to the rank of the same place in the group that is d groups further. REQUIRES ranks %
// size == 0.
std::vector<Graph> groups(int ranks, int size);

}  // namespace sotto
