#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct AdPsgdOptions {
  std::int64_t every = 1;
  std::string count = "all";
  void visit(OptionVisitor& v) {
    v.option("every", every, "own steps from one request of an active rank to the next; 0: as fast as answers come",
             Bounds{0, 1e6});
    v.option("count", count, "steps that end a run: those of all ranks together, or as many of each", {"all", "each"});
  }
};

// Asynchronous decentralised parallel SGD (Lian, Zhang, Zhang, Liu, ICML 2018): each rank takes steps at its own speed,
// while a thread averages its model with the models of other ranks, one at a time. A gradient is taken at the model as
// it was when the step began, and applied to the model as it is when the gradient is ready.
std::unique_ptr<Algorithm> make_ad_psgd(const AdPsgdOptions& own, const AlgorithmOptions& options,
                                        std::span<const BucketPlan> buckets, Communicator& communicator);
OptionTraits ad_psgd_with(const AnyOptions& own);
// Why this topology cannot be used with this mixing; empty if it can.
std::string problem_of_ad_psgd(const Topology& topology, const Mixing& mixing);

}  // namespace sotto
