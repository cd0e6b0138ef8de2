#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sotto/comm/communicator.h"
#include "app/task/task.h"

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

}  // namespace sotto
