#pragma once

#include <span>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/task/task.h"

namespace sotto {

// Counts over all examples of a split, by this rank alone, with the parameters that are given, if any.
Tally evaluate_alone(Task& task, std::span<const float> parameters, Split split);

// The same, shared out over the ranks. Buffers are their mean over ranks while it runs, and parameters those that are
// given, if any.
Tally evaluate_together(Task& task, std::span<const float> parameters, Split split, Communicator& communicator);

// The mean of the ranks' models, and how far they are from it: the root of the mean of |x_r - mean|^2.
struct MeanModel {
  std::vector<float> parameters;
  double distance = 0;
};
MeanModel mean_model(std::span<const float> parameters, Communicator& communicator);

}  // namespace sotto
