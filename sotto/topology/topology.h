#pragma once

#include <cstddef>
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
  int ranks() const { return cycle_.front().ranks(); }
  std::size_t peers() const { return peers_; }
  // As many rounds repeat for ever.
  std::size_t period() const { return rounds_.size(); }
  const Graph& round(std::size_t number) const { return rounds_[number % rounds_.size()]; }

  bool is_static() const { return rounds_.size() == 1; }
  bool symmetric() const;  // in every round
  bool regular() const;
  // Whether two ranks that ever exchange differ in parity: then even ranks may wait and odd ranks may ask, and nobody
  // waits in a circle (AD-PSGD).
  bool bipartite() const;
  bool connected() const;  // all rounds together: everything reaches every rank in the end

  // Rounds, from any one on, after which what a rank says has come to all others. REQUIRES connected().
  std::size_t spread() const;

 private:
  std::string sentence_;
  std::vector<Graph> cycle_;
  std::size_t peers_;
  std::vector<Graph> rounds_;
};

}  // namespace sotto
