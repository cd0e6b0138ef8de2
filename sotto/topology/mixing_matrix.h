#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sotto/topology/mixing.h"
#include "sotto/topology/topology.h"

namespace sotto {

// What a round does to all ranks' values at once: at(i, j) is the share of rank j's value that rank i has afterwards.
class MixingMatrix {
 public:
  static MixingMatrix identity(int ranks);
  static MixingMatrix of(const Graph& graph, const Mixing& mixing);

  int ranks() const { return ranks_; }
  double at(int to, int from) const { return shares_[static_cast<std::size_t>(to * ranks_ + from)]; }
  MixingMatrix operator*(const MixingMatrix& before) const;

  // Rows add up to 1, too: all ranks hold values of the same weight, and push-sum's weights stay 1.
  bool doubly_stochastic() const;
  // Every rank's value over its weight is the mean of all.
  bool averages() const;
  // The second largest magnitude of an eigenvalue: what is left of differences after so many rounds.
  double second_eigenvalue() const;

 private:
  explicit MixingMatrix(int ranks);
  double& share(int to, int from) { return shares_[static_cast<std::size_t>(to * ranks_ + from)]; }

  int ranks_;
  std::vector<double> shares_;
};

// How fast ranks come to agree.
struct Consensus {
  double spectral_gap = 0;                 // of a round: 1 - rho, where differences shrink as rho^rounds
  std::optional<std::size_t> exact_after;  // rounds from the first on until all hold the mean; nothing: never
  bool doubly_stochastic = false;          // in every round
};
Consensus consensus(const Topology& topology, const Mixing& mixing);

// That alone, in a time that grows with the edges; consensus() takes that of eigenvalues, the cube of the ranks.
bool doubly_stochastic(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
