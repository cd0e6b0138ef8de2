#pragma once

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// What algorithms on graphs have in common.

// For whole vectors, as the options say. ConfigError.
Gossiper make_gossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       const Communicator& communicator);
Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input);
// When computing failed, that error is the one to report: not what it does to exchanges under way.
void settle_quietly(CommThread& thread) noexcept;

}  // namespace sotto
