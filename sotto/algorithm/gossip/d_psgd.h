#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Decentralised parallel SGD (Lian et al., NeurIPS 2017): x_i = sum_j W_ij x_j - lr * gradient(x_i), with the x_i from
// before the step on the right, and one doubly stochastic W. Models are on their way while the gradient is computed.
std::unique_ptr<Algorithm> make_d_psgd(const NoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);
// Why this topology cannot be used with this mixing; empty if it can.
std::string problem_of_d_psgd(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
