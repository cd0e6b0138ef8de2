#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Ranks take h steps of their own, and exchange delta = start - x, how far they went from where all began, through an
// aggregator: what it makes of all deltas is theirs to the last bit. With s = start:
//
// local: s = s - mean(delta), x = s; so x is the mean of the ranks' models (Local SGD: Stich, ICLR 2019). In the first
// `after` steps they average behind each one (post-local SGD: Lin et al., ICLR 2020).
std::unique_ptr<Algorithm> make_local(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_local();

// slowmo: u = momentum u + mean(delta) / rate, s = s - lr rate u, x = s, with the rate of the step behind which they
// exchange (Wang et al., ICLR 2020). `buffers` is what becomes of the optimiser's own.
std::unique_ptr<Algorithm> make_slowmo(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_slowmo();

// diloco: v = momentum v + mean(delta), s = s - lr (mean(delta) + momentum v), x = s (Douillard et al., DiLoCo, 2023).
// Buckets go in `shards` groups, in turn; what leaves behind step t is applied behind step t + overlap, and then x =
// alpha x + (1 - alpha) s (Streaming DiLoCo: Douillard et al., 2025).
std::unique_ptr<Algorithm> make_diloco(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);
std::string help_diloco();

}  // namespace sotto
