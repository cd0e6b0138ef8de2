#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sotto/topology/graph.h"

namespace sotto {

// Who exchanges with whom in every round of gossip. A topology has a cycle of elementary graphs; each round is the
// union of the next `peers` of them. Assran et al., "Stochastic Gradient Push", ICML 2019, rotate through a rank's
// peers in this way. A static topology takes the whole cycle in every round.
class Topology {
 public:
  // `peers`: the number of graphs that a round takes; 0, or more than there are: all. REQUIRES at least one graph, all
  // of the same number of ranks.
  Topology(std::string text, std::vector<Graph> cycle, std::size_t peers);

  const std::string& text() const { return text_; }  // canonical, every option named
  int ranks() const { return rounds_.front().ranks(); }
  std::size_t peers() const { return peers_; }
  // The number of rounds after which they repeat.
  std::size_t period() const { return rounds_.size(); }
  const Graph& round(std::size_t number) const { return rounds_[number % rounds_.size()]; }

  bool is_static() const { return rounds_.size() == 1; }
  // Each of these three holds when it holds for the graph of every round.
  bool has_shares() const;  // then these shares are the default mixing
  bool symmetric() const;
  bool regular() const;
  // Whether the graph of all rounds is bipartite. AD-PSGD needs this: one side asks, the other answers, so that ranks
  // cannot wait for each other in a circle.
  bool bipartite() const { return sides().has_value(); }
  // The side of each rank in the bipartition; false for rank 0. Nothing when there is none. REQUIRES connected().
  std::optional<std::vector<bool>> sides() const;
  bool connected() const;  // the graph of all rounds is strongly connected

  // After this many rounds, beginning with any round, every rank has heard from all others. REQUIRES connected().
  std::size_t rounds_to_reach_all() const;

 private:
  Graph all_rounds() const;

  std::string text_;
  std::size_t peers_;
  std::vector<Graph> rounds_;
};

}  // namespace sotto
