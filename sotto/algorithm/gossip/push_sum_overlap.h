#pragma once

#include <cstdint>
#include <memory>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Overlap SGP: a round is on its way during the next `synch_freq` steps, and what arrives is added behind them.
std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
