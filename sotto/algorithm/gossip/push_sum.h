#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Stochastic Gradient Push (Assran et al., ICML 2019): each rank applies its own gradient, taken at z = x / w, to its
// x, and then mixes x and w with its neighbours'. With overlap (Overlap SGP) a round is on its way while the next steps
// compute, `synch_freq` of them at most.
std::unique_ptr<Algorithm> make_push_sum(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_push_sum();

}  // namespace sotto
