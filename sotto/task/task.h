#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/core/segment_calls.h"
#include "sotto/data/options.h"
#include "sotto/task/metric.h"

namespace sotto {

// Which of `ranks` equal shares of the examples.
struct Share {
  int rank = 0, ranks = 1;
};

// Sums that a task counted over some examples. Tallies of disjoint sets of examples, on whichever ranks, add up element
// by element, and Task::metrics() makes metrics of the sum.
using Tally = std::vector<double>;

// What one rank trains: a model, its data, its loss and its metrics, as flat vectors. Nobody above this folder knows
// more of a model than that. All ranks of a run have the same task, and each has its own share of the examples.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Layout& layout() const = 0;         // of parameters and gradient
  virtual const Layout& buffer_layout() const = 0;  // of what is neither: batch-norm statistics
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<float> buffers() = 0;

  virtual std::uint64_t examples(Split split) const = 0;
  // Positions of one epoch. Position p is batch p % positions_per_epoch() of epoch p / positions_per_epoch().
  virtual std::uint64_t positions_per_epoch() const = 0;

  // gradient() += scale * d(mean loss of a batch)/d(parameters); returns that loss. The position says which batch: its
  // examples are a pure function of the seed, the position, and this rank's share, so there is no state to save.
  // Random draws, such as dropout, are a pure function of `random`. A segment that the loss does not depend on is never
  // `ready`.
  virtual double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                                     const SegmentCalls& calls) = 0;
  virtual double data_seconds() const = 0;  // that the last gradient waited for its examples

  // Counts over this share of the examples of a split, in evaluation mode: no gradients, nothing is drawn.
  virtual Tally evaluate(Split split, Share share) = 0;
  // The tally of the gradients since it was last set to zeros. It is part of a checkpoint.
  virtual Tally& trained() = 0;
  // The metrics of a tally; no values where nothing was counted. A metric that training does not count is NaN.
  virtual Metrics metrics(const Tally& tally) const = 0;
  virtual const Metric& goal() const = 0;       // the metric that tells which of two models is the better one
  virtual double loss_of_guessing() const = 0;  // of a model that has learned nothing: what a run is measured against
};

}  // namespace sotto
