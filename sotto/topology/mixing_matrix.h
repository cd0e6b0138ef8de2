#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sotto/topology/mixing.h"
#include "sotto/topology/topology.h"

namespace sotto {

// The mixing matrix of a round: at(i, j) is the share of rank j's value that rank i holds after the round.
class MixingMatrix {
 public:
  static MixingMatrix identity(int ranks);
  static MixingMatrix of(const Graph& graph, const Mixing& mixing);

  int ranks() const { return ranks_; }
  double at(int to, int from) const { return shares_[place(to, from)]; }
  MixingMatrix operator*(const MixingMatrix& before) const;

  // Rows add up to 1, too (columns always do), so the weights of push-sum stay 1.
  bool doubly_stochastic() const;
  // After these rounds every rank's value, divided by its push-sum weight, is the mean over all ranks.
  bool averages() const;
  // The second largest magnitude of an eigenvalue: the factor by which these rounds shrink differences between ranks.
  double second_eigenvalue() const;

 private:
  explicit MixingMatrix(int ranks);
  std::size_t place(int to, int from) const {
    return static_cast<std::size_t>(to) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(from);
  }
  double& share(int to, int from) { return shares_[place(to, from)]; }

  int ranks_;
  std::vector<double> shares_;
};

// How fast ranks come to agree.
struct Consensus {
  double spectral_gap = 0;                 // per round: 1 - rho, where differences shrink as rho^rounds
  std::optional<std::size_t> exact_after;  // the number of rounds after which all ranks hold the mean; nothing: never
  bool doubly_stochastic = false;          // in every round
};
Consensus consensus(const Topology& topology, const Mixing& mixing);

// Computes only this field, in time proportional to the number of edges; consensus() needs the cube of the ranks.
bool doubly_stochastic(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
