#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct PushSumOptions {
  bool overlap = false;
  std::int64_t synch_freq = 1;
  void visit(OptionVisitor& v) {
    v.option("overlap", overlap, "let a round be on its way while the next steps compute");
    v.option("synch_freq", synch_freq,
             "with overlap: a round leaves every `synch_freq` steps, and is added at most as many steps later",
             Bounds{1, 1e6});
  }
  std::string problem() const { return overlap || synch_freq == 1 ? "" : "synch_freq is of overlap=true"; }
};

// Stochastic Gradient Push (Assran et al., ICML 2019): each rank takes its gradient at z = x / w, applies it to its x,
// and then mixes x and w with those of its neighbours. With overlap (Overlap SGP) a round is on its way while the next
// steps compute, `synch_freq` of them at most.
std::unique_ptr<Algorithm> make_push_sum(const PushSumOptions& own, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets, Communicator& communicator);
// Runs vary if the time at which a round arrives decides after which step it is added.
OptionTraits push_sum_with(const AnyOptions& own);

// Overlap SGP (Assran et al., ICML 2019, algorithm 2): a round leaves every `synch_freq` steps, and is added after the
// first later step by which it has come. The rank waits for it only when it is `synch_freq` steps old, so that all
// ranks make the same number of rounds.
std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator);

// Decentralised parallel SGD (Lian et al., NeurIPS 2017): x_i = sum_j W_ij x_j - lr * gradient(x_i), with the x_i from
// before the step on the right, and one doubly stochastic W. Models are on their way while the gradient is computed.
std::unique_ptr<Algorithm> make_d_psgd(const NoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);
// Why this topology cannot be used with this mixing; empty if it can.
std::string problem_of_d_psgd(const Topology& topology, const Mixing& mixing);

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
// w moves with the gamma of x: otherwise equal models would drift apart if the mixing is not doubly stochastic. A
// rank's x^ is known only to ranks that get all of its messages, so the topology must stay the same. A rank keeps its
// own x^ and the sum over its neighbours, not the x^ of each neighbour.
std::unique_ptr<Algorithm> make_choco(const ChocoOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator);
// Why this topology cannot be used; empty if it can.
std::string problem_of_choco(const Topology& topology, const Mixing& mixing);

// Gossip between nodes of `node_size` consecutive ranks. The ranks of a node share a model, as with `nprocs_per_node`
// in the code of SGP (Assran et al., ICML 2019). Their gradients are averaged, as floats, each bucket as backward
// finishes it. The first rank of a node, its leader, takes the step, and exchanges models with the other leaders;
// `make` makes the algorithm for that, on a communicator that has one rank per node. Then the leader sends the model to
// the rest of its node. So W ranks in nodes of L do what W / L ranks with L times the batch would, but for rounding.
//
// Exchanges within a node have separate connections. Collective. REQUIRES that node_size divides the number of
// ranks.
std::unique_ptr<Algorithm> make_nodes(const AlgorithmOptions& options, Communicator& communicator,
                                      const std::function<std::unique_ptr<Algorithm>(Communicator&)>& make);

}  // namespace sotto
