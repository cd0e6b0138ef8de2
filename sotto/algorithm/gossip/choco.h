#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct ChocoOptions {
  double gamma = 0;
  void visit(OptionVisitor& v) {
    v.option("gamma", gamma, "how far models move towards what is known of neighbours; 0: by the codec's contraction",
             {0, 1});
  }
};

// Compressed gossip: CHOCO-SGD (Koloskova, Stich, Jaggi, ICML 2019), and on directed graphs quantised push-sum (Taheri,
// Mokhtari, Hassani, Pedarsani, ICML 2020). Neighbours know x^ of a rank, and learn of a step by the code of x - x^:
//   x = x - lr gradient(x / w);  x^ = x^ + C(x - x^);  x = x + gamma (sum_j a_ij x^_j - x^_i);
//   w = w + gamma (sum_j a_ij w_j - w)
// w moves with the gamma of x: otherwise models that are the same would drift apart where mixing is not doubly
// stochastic. The x^ of a rank is known to those that it always sends to, so the topology must stay the same. A rank
// keeps its own x^ and the sum over its neighbours, not each of theirs.
std::unique_ptr<Algorithm> make_choco(const ChocoOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator);
// Why it cannot be had on this topology; empty: it can.
std::string problem_of_choco(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
