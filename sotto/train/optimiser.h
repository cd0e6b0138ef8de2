#pragma once

#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/optim/optimiser.h"
#include "sotto/task/table.h"
#include "sotto/train/options.h"

namespace sotto {

struct ChosenOptimiser {
  OptimiserSpec spec;
  double lr = 0;
};

// The optimiser of a run: the option `optimiser`, else that of the codec's preset, else that of the algorithm, else
// the model's. `momentum`, `nesterov` and `weight-decay` become options of it, and so does `codec-start-after` if it
// uses dense steps first. If the user does not set learning rate and momentum, the optimiser's or model's defaults are
// used. With `lr-scale` the rate is for 256 examples and grows with the examples per step (the linear scaling rule;
// Goyal et al., 2017). ConfigError if the optimiser does not have such an option or gives it itself, and if momentum is
// already applied before gradients are sent.
ChosenOptimiser read_optimiser(const TrainOptions& options, const Recipe& recipe, const ModelDefaults& model,
                               const AlgorithmSpec& algorithm);

}  // namespace sotto
