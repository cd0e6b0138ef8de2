#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"

namespace sotto {

struct VectorAveragerOptions {
  std::uint64_t seed = 1;  // of all random numbers; the same on every rank
  std::shared_ptr<ThreadPool> pool =
      nullptr;  // shares out the work of the codec; null: the calling thread does it alone
};

// Compresses and averages a flat gradient of a user's own, step after step, as a recipe says:
//
//   VectorAverager averager(communicator, gradient.size(), read_recipe("ef | topk(0.01)"));
//   averager.average(gradient);  // in every step
//
// The averager owns the memory of the recipe: an element that a step leaves out is sent in a later step. All ranks make
// one with the same size, recipe and options. Serves one thread. The communicator must outlive it.
class VectorAverager {
 public:
  // The vector is one tensor of one dimension. A stage sends such a tensor whole where it has at most `dense` elements:
  // 1024 in a stage, and any number in most presets. ConfigError when the recipe cannot be used.
  VectorAverager(Communicator& communicator, std::size_t size, const Recipe& recipe,
                 VectorAveragerOptions options = {});
  // The vector holds the tensors of this layout. Recipes such as "power(2)" or "svd | atomo(3)" want to know matrices.
  VectorAverager(Communicator& communicator, const Layout& layout, const Recipe& recipe,
                 VectorAveragerOptions options = {});

  // One step. Collective: `gradient` becomes the mean over all ranks, the same bits on every rank. The memory `memsgd`
  // wants the learning rate of the step; no other one does. std::invalid_argument when the vector has another size.
  // NumericError for a value that is not finite, CommError and WireError for what peers do; an error does not count as
  // a step.
  void average(std::span<float> gradient, double learning_rate = 0);

  std::uint64_t step() const { return step_; }                  // the number of the next one
  const Timings& timings() const { return timings_; }           // seconds of all steps together
  std::string remark() const { return aggregator_->remark(); }  // what was chosen while it ran, and why; may be empty
  // Step and memory, for a checkpoint: after a restart the same bits come as without one.
  void visit_state(StateVisitor& visitor);

 private:
  Communicator& communicator_;
  std::size_t size_;
  VectorAveragerOptions options_;
  std::vector<BucketPlan> buckets_;  // one, unless the vector is too long for a message
  std::unique_ptr<Aggregator> aggregator_;
  std::uint64_t mark_;  // of what all ranks must have in common
  std::uint64_t step_ = 0;
  Timings timings_;
};

}  // namespace sotto
