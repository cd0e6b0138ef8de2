#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/topology/graph.h"

namespace sotto {

// Who exchanges with whom in every round of gossip: a cycle of elementary graphs, of which each round takes the next
// `peers`. Assran et al., "Stochastic Gradient Push", ICML 2019, rotate through a rank's peers in this way; a topology
// that never changes takes all of them in every round.
class Topology {
 public:
  // REQUIRES graphs of as many ranks, at least one. peers: how many of them a round takes; 0, or more: all.
  Topology(std::string sentence, std::vector<Graph> cycle, std::size_t peers);

  const std::string& sentence() const { return sentence_; }  // canonical, every option named
  int ranks() const { return rounds_.front().ranks(); }
  std::size_t peers() const { return peers_; }
  // As many rounds repeat for ever.
  std::size_t period() const { return rounds_.size(); }
  const Graph& round(std::size_t number) const { return rounds_[number % rounds_.size()]; }

  bool is_static() const { return rounds_.size() == 1; }
  bool has_shares() const;  // of its own, in every round: then they are the default mixing
  bool symmetric() const;   // in every round
  bool regular() const;
  // Whether the ranks have two sides, and any two that ever exchange are on different ones: then one side may wait and
  // the other ask, and nobody waits in a circle (AD-PSGD).
  bool bipartite() const { return sides().has_value(); }
  // The side of each rank; that of rank 0 is the first, and so of all even ranks where they exchange with odd ones.
  // Nothing where there are no sides. REQUIRES connected().
  std::optional<std::vector<bool>> sides() const;
  bool connected() const;  // all rounds together: everything reaches every rank in the end

  // Rounds, from any one on, after which what a rank says has come to all others. REQUIRES connected().
  std::size_t spread() const;

 private:
  Graph all_rounds() const;

  std::string sentence_;
  std::size_t peers_;
  std::vector<Graph> rounds_;
};

}  // namespace sotto
