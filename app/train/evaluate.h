#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/task/metric.h"
#include "app/task/task.h"
#include "app/train/replica.h"
#include "sotto/comm/communicator.h"

namespace sotto {

// What an AfterBatch throws to break off an evaluation. The other ranks finish their part of it.
struct BrokenOff {};

// Counts over all examples of a split, by each rank for itself. `parameters` replace the task's, unless empty.
// Collective: nothing on all ranks if one of them broke off.
std::optional<Tally> evaluate_alone(Task& task, std::span<const float> parameters, Split split,
                                    Communicator& communicator, const AfterBatch& after_batch);

// Like evaluate_alone(), but divided among the ranks. During the evaluation the buffers are their mean over the ranks.
std::optional<Tally> evaluate_together(Task& task, std::span<const float> parameters, Split split,
                                       Communicator& communicator, const AfterBatch& after_batch);

// The mean of the ranks' models, and their distance from it: the root of the mean of |x_r - mean|^2.
struct MeanModel {
  std::vector<float> parameters;
  double distance = 0;
};
MeanModel mean_model(std::span<const float> parameters, Communicator& communicator);

// The quality of a run's model on the test examples. If ranks have their own models, it is that of their mean.
struct TestResult {
  Metrics metrics;
  Metric goal;
  // If ranks have their own models; otherwise empty and 0:
  std::vector<double> rank_goals;  // the goal metric of each rank's own model
  double consensus_distance = 0;   // the root of the mean over ranks of |x_r - mean|^2

  std::string text() const;  // one line
};

// Collective. Ranks share out the examples of a common model. A rank first evaluates its own model on all
// examples, if it has one. `after_batch` hears of each evaluation. Nothing if it broke off an evaluation of some rank.
std::optional<TestResult> test_together(Replica& replica, bool replicated, const Metric& goal,
                                        Communicator& communicator, const AfterBatch& after_batch);

// That of a model that was not tested: each metric is NaN.
TestResult untested(std::span<const Metric> kinds, const Metric& goal);

// Not if a model is so much worse than guessing that it has learned nothing, whatever its parameters are: it diverged.
bool makes_sense(const TestResult& tested, double loss_of_guessing);
// NumericError unless it makes sense.
void require_sense(const TestResult& tested, double loss_of_guessing, std::uint64_t step);

}  // namespace sotto
