#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Asynchronous decentralised parallel SGD (Lian, Zhang, Zhang, Liu, ICML 2018): each rank takes steps at its own speed,
// and a thread of it averages its model with those of others, two at a time, meanwhile. A gradient is taken at the
// model as it was when the step began, and applied to it as it is when the gradient is there.
std::unique_ptr<Algorithm> make_ad_psgd(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                        std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_ad_psgd();
// Why it cannot be had on this topology; empty: it can.
std::string problem_of_ad_psgd(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
