#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"

namespace sotto {

struct VectorAveragerOptions {
  std::uint64_t seed = 1;  // of all random numbers; the same on every rank
  // Shares the work of the codec; null: the calling thread works alone.
  std::shared_ptr<ThreadPool> pool = nullptr;
};

// Compresses and averages a user's own flat gradient, step after step, as a recipe says:
//
//   VectorAverager averager(communicator, gradient.size(), read_recipe("ef | topk(0.01)"));
//   averager.average(gradient);  // in every step
//
// The averager owns the recipe's memory: elements that a step leaves out are sent in later steps. All ranks must make
// one with the same size, recipe and options. Serves one thread. The communicator must outlive it.
//
// An error of a step is final, because a memory may have counted this gradient, and other ranks may have their mean.
// The other ranks are told, and fail, too. Every later call throws the error again, and the communicator is of no
// further use. To leave out a gradient that is not finite, all ranks must agree on that before the step.
class VectorAverager {
 public:
  // The vector is one tensor of one dimension. A stage sends such a tensor whole if it has at most `dense` elements:
  // 1024 by default, any number in most presets. ConfigError if the recipe cannot be used.
  VectorAverager(Communicator& communicator, std::size_t size, const Recipe& recipe,
                 VectorAveragerOptions options = {});
  // The vector holds the tensors of this layout. Recipes such as "power(2)" or "svd | atomo(3)" need matrices.
  VectorAverager(Communicator& communicator, const Layout& layout, const Recipe& recipe,
                 VectorAveragerOptions options = {});

  // One step. Collective: replaces `gradient` with the mean over all ranks, with the same bits on every rank. Only the
  // memory `memsgd` uses the learning rate, and it must be above 0 there (ConfigError). The first step throws
  // ConfigError if ranks differ in size, recipe or seed. NumericError if a value or the sum over ranks is not finite,
  // CommError and WireError for failures of peers. After an error the vector is undefined. std::invalid_argument,
  // before anything happens, if the vector has another size.
  void average(std::span<float> gradient, double learning_rate = 0);

  std::uint64_t step() const { return step_; }                  // the number of the next one
  const Timings& timings() const { return timings_; }           // total seconds of all steps
  std::string remark() const { return aggregator_->remark(); }  // what was chosen while it ran, and why; may be empty
  // Step and memory, for a checkpoint: a restarted run has the same bits as one without a restart, unless the codec is
  // `auto`, which measures again. Throws the error of an earlier step.
  void visit_state(StateVisitor& visitor);

 private:
  void meet();
  void step(std::span<float> gradient, double learning_rate);
  Communicator& communicator_;
  std::size_t size_;
  VectorAveragerOptions options_;
  std::vector<BucketPlan> buckets_;  // one, unless the vector is too long for a message
  std::unique_ptr<Aggregator> aggregator_;
  std::uint64_t mark_;  // hash of what must be the same on all ranks
  bool met_ = false;
  std::uint64_t step_ = 0;
  Timings timings_;
  std::exception_ptr error_;
};

}  // namespace sotto
