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
// With priority=need: make_sync_by_need().
std::unique_ptr<Algorithm> make_sync(const SyncOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);

OptionTraits sync_with(const AnyOptions& own);

// Computes the same bits as make_sync(), but exchanges buckets in another order: of the buckets that are ready on all
// ranks, first the one that the next forward needs first. Forward begins while buckets are on their way, and waits for
// each one when it needs it (Jayarajan et al., MLSys 2019; Peng et al., SOSP 2019). Parameters are complete only after
// drain(), not after each step.
std::unique_ptr<Algorithm> make_sync_by_need(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                             Communicator& communicator);

}  // namespace sotto
