#pragma once

#include <cstddef>
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

}  // namespace sotto
