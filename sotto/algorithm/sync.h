#pragma once

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct SyncOptions {
  std::string priority = "ready";
  void visit(OptionVisitor& v) {
    v.option("priority", priority,
             "which bucket is exchanged first: the one that is ready first, or the one that is needed first",
             {"ready", "need"});
  }
};

// Synchronous data-parallel SGD: every rank applies the mean gradient of all ranks, so all keep the same parameters.
// With priority=need: SyncByNeed.
std::unique_ptr<Algorithm> make_sync(const SyncOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);

OptionTraits sync_with(const AnyOptions& own);

}  // namespace sotto
