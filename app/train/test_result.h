#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/comm/communicator.h"
#include "app/task/metric.h"
#include "app/train/replica.h"

namespace sotto {

// The quality of a run's model on the test examples. If ranks have models of their own, it is that of their mean.
struct TestResult {
  Metrics metrics;
  Metric goal;
  // If ranks have models of their own; otherwise empty and 0:
  std::vector<double> rank_goals;  // the goal metric of each rank's own model
  double consensus_distance = 0;   // the root of the mean over ranks of |x_r - mean|^2

  std::string text() const;  // one line
};

// Collective. Ranks share out the examples of a common model. A rank first evaluates a model of its own on all
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
