#pragma once

#include <functional>
#include <memory>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Gossip between nodes of `node_size` ranks that follow each other. The ranks of a node share a model, as with
// `nprocs_per_node` in the code of SGP (Assran et al., ICML 2019): their gradients are averaged, as floats, each bucket
// as backward finishes it; the first of them, the leader, takes the step and exchanges models with the other leaders,
// by the algorithm that `make` makes of a communicator of as many ranks as there are nodes; then it sends the model to
// the rest of the node. So W ranks in nodes of L do what W / L ranks with L times the batch would, but for rounding.
//
// What is exchanged within a node goes over connections of its own. Collective. REQUIRES that nodes divide the ranks.
std::unique_ptr<Algorithm> make_nodes(const AlgorithmOptions& options, Communicator& communicator,
                                      const std::function<std::unique_ptr<Algorithm>(Communicator&)>& make);

}  // namespace sotto
