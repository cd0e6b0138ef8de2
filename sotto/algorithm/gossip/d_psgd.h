#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Decentralised parallel SGD (Lian et al., NeurIPS 2017): x = sum_j W_ij x_j - lr * gradient at this rank's x before
// that, with one doubly stochastic W. Models are on their way while the gradient is computed.
std::unique_ptr<Algorithm> make_d_psgd(const NoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);
// Why it cannot be had on this topology; empty: it can.
std::string problem_of_d_psgd(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
