#pragma once

#include <cstddef>
#include <vector>

namespace sotto {

// Who sends to whom in one round of gossip: a directed graph without loops.
class Graph {
 public:
  explicit Graph(int ranks) : out_(static_cast<std::size_t>(ranks)), in_(out_.size()) {}

  int ranks() const { return static_cast<int>(out_.size()); }
  // Once, however often it is added; a rank sends nothing to itself.
  void add(int from, int to);
  // The same, with the share of what `from` holds that goes to `to`. A graph has shares for all of its edges or for
  // none.
  void add(int from, int to, double share);
  // The edges of another graph, without their shares.
  void add(const Graph& other);

  // In the order in which they were added.
  const std::vector<int>& out(int rank) const { return out_.at(static_cast<std::size_t>(rank)); }
  const std::vector<int>& in(int rank) const { return in_.at(static_cast<std::size_t>(rank)); }
  // Of what a rank holds, the share for each of out(rank); empty where the graph says none.
  const std::vector<double>& shares(int rank) const;
  bool has_shares() const;  // for all edges; true of one without edges

  bool symmetric() const;  // whoever sends to another gets something from it
  bool regular() const;    // every rank has as many peers to send to as to get from, all ranks the same number
  bool connected() const;  // whatever rank something is at, it reaches all others along the edges
  bool operator==(const Graph&) const = default;

 private:
  std::vector<std::vector<int>> out_, in_;
  std::vector<std::vector<double>> shares_;  // empty where none is said
};

}  // namespace sotto
