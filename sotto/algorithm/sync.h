#pragma once

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Synchronous data-parallel SGD: every rank applies the mean gradient of all ranks, so all keep the same parameters.
// With priority=need: SyncByNeed.
std::unique_ptr<Algorithm> make_sync(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_sync();

}  // namespace sotto
