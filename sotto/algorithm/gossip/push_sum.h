#pragma once

#include <memory>
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
// It varies if the time at which a round arrives decides where it is added.
OptionTraits push_sum_with(const AnyOptions& own);

// Overlap SGP (Assran et al., ICML 2019, algorithm 2): a round leaves every `synch_freq` steps, and is added after the
// first later step by which it has come. The rank waits for it only when it is `synch_freq` steps old, so that all
// ranks make the same number of rounds.
std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
