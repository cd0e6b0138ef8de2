#pragma once

#include <cstdint>
#include <memory>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Overlap SGP (Assran et al., ICML 2019, algorithm 2): a round leaves every `synch_freq` steps, and is added after the
// first later step by which it has come. The rank waits for it only when it is `synch_freq` steps old, so that all
// ranks make the same number of rounds.
std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
