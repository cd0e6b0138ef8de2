#pragma once

#include <span>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/task/task.h"

namespace sotto {

// Counts over all examples of a split, on this rank alone. `parameters` replace the task's, unless empty.
Tally evaluate_alone(Task& task, std::span<const float> parameters, Split split, const AfterBatch& after_batch);

// Like evaluate_alone(), but divided among the ranks. During the evaluation the buffers are their mean over the ranks.
// `parameters` replace the task's, unless empty.
Tally evaluate_together(Task& task, std::span<const float> parameters, Split split, Communicator& communicator,
                        const AfterBatch& after_batch);

// The mean of the ranks' models, and their distance from it: the root of the mean of |x_r - mean|^2.
struct MeanModel {
  std::vector<float> parameters;
  double distance = 0;
};
MeanModel mean_model(std::span<const float> parameters, Communicator& communicator);

}  // namespace sotto
