#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct LocalOptions {
  std::int64_t h = 8;
  std::int64_t after = 0;
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges", {1, 1e6});
    v.option("after", after, "steps at the beginning that are each followed by an exchange", {0, 1e15});
  }
};

// Ranks take h steps of their own, and then exchange delta = start - x, how far they went from their common start,
// through an aggregator. Its result is the same on all ranks, to the last bit. With s = start:
//
// local: s = s - mean(delta), x = s; so x is the mean of the ranks' models (Local SGD: Stich, ICLR 2019). In the first
// `after` steps they average after each step (post-local SGD: Lin et al., ICLR 2020).
std::unique_ptr<Algorithm> make_local(const LocalOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator);

struct SlowmoOptions {
  std::int64_t h = 12;
  double momentum = 0.7;
  double lr = 1;
  std::string buffers = "keep";
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges", {1, 1e6});
    v.option("momentum", momentum, "share of the last slow step that is kept", {0, 1, false, true});
    v.option("lr", lr, "rate of the slow step, as a multiple of the ranks' own rate", Bounds::positive());
    v.option("buffers", buffers, "what happens to the optimiser's own vectors after an exchange",
             {"keep", "reset", "average"});
  }
};

// slowmo: u = momentum u + mean(delta) / rate, s = s - lr rate u, x = s, with the rate of the step after which they
// exchange (Wang et al., ICLR 2020). `buffers` says what happens to the optimiser's own vectors.
std::unique_ptr<Algorithm> make_slowmo(const SlowmoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);

struct DilocoOptions {
  std::int64_t h = 100;
  double lr = 0.7;
  std::optional<double> momentum;  // none: chosen by the memory
  std::int64_t shards = 1;
  std::int64_t overlap = 0;
  double alpha = 0.5;
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges of a bucket", {1, 1e6});
    v.option("lr", lr, "rate of the outer step; 1 goes to the mean of the models", Bounds::positive());
    v.option("momentum", momentum,
             "Nesterov momentum of the outer step; auto: 0.9, or 0.5 where a memory sends most of a difference later",
             {0, 1, false, true});
    v.option("shards", shards, "groups of buckets that are exchanged in turn", {1, 65535});
    v.option("overlap", overlap, "steps during which an exchange is on its way, below h", {0, 1e6});
    v.option("alpha", alpha, "with overlap: the share of a rank's own model that stays", {0, 1, false, true});
  }
  std::string problem() const;
};

// diloco: v = momentum v + mean(delta), s = s - lr (mean(delta) + momentum v), x = s (Douillard et al., DiLoCo, 2023).
// Buckets are exchanged in `shards` groups, in turn. With overlap, what leaves after step t is applied after step t +
// overlap, and then x = alpha x + (1 - alpha) s (Streaming DiLoCo: Douillard et al., 2025).
std::unique_ptr<Algorithm> make_diloco(const DilocoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator);

// Elastic unless an exchange may be on its way between two steps.
inline OptionTraits diloco_with(const AnyOptions& own) { return {.elastic = own.as<DilocoOptions>().overlap == 0}; }

}  // namespace sotto
