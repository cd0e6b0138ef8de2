#pragma once

#include <functional>
#include <memory>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Gossip between nodes of `node_size` consecutive ranks. The ranks of a node share a model, as with `nprocs_per_node`
// in the code of SGP (Assran et al., ICML 2019). Their gradients are averaged, as floats, each bucket as backward
// finishes it. The first rank of a node, its leader, takes the step, and exchanges models with the other leaders;
// `make` makes the algorithm for that, on a communicator that has one rank per node. Then the leader sends the model to
// the rest of its node. So W ranks in nodes of L do what W / L ranks with L times the batch would, but for rounding.
//
// Exchanges within a node have connections of their own. Collective. REQUIRES that node_size divides the number of
// ranks.
std::unique_ptr<Algorithm> make_nodes(const AlgorithmOptions& options, Communicator& communicator,
                                      const std::function<std::unique_ptr<Algorithm>(Communicator&)>& make);

}  // namespace sotto
