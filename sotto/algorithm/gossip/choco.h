#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct ChocoOptions {
  std::optional<double> gamma;
  void visit(OptionVisitor& v) {
    v.option("gamma", gamma,
             "how far models move towards the known models of neighbours; auto: by the codec's contraction",
             Bounds::share());
  }
};

// Compressed gossip: CHOCO-SGD (Koloskova, Stich, Jaggi, ICML 2019), and on directed graphs quantised push-sum (Taheri,
// Mokhtari, Hassani, Pedarsani, ICML 2020). Neighbours know a rank's model as x^, to which all of them add its messages
// C(x - x^):
//   x = x - lr gradient(x / w);  x^ = x^ + C(x - x^);  x = x + gamma (sum_j a_ij x^_j - x^_i);
//   w = w + gamma (sum_j a_ij w_j - w)
// w moves with the gamma of x: otherwise equal models would drift apart if the mixing is not doubly stochastic. Only
// ranks that a rank always sends to know its x^, so the topology must stay the same. A rank keeps its own x^ and the
// sum over its neighbours, not the x^ of each neighbour.
std::unique_ptr<Algorithm> make_choco(const ChocoOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator);
// Why this topology cannot be used; empty if it can.
std::string problem_of_choco(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
