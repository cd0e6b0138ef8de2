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

// The optimiser that the options say: `optimiser`, or that of the codec's preset, or the algorithm's, or sgd; with
// `momentum`, `nesterov` and `weight-decay` as options of it, and `codec-start-after` where it wants dense steps.
// Learning rate and momentum are its own or the model's where nobody said them; with `lr-scale` the rate is that of 256
// examples, and grows with those of a step (the linear scaling rule; Goyal et al., 2017). ConfigError when it has no
// such option, or says it itself, and when the momentum is made before gradients are sent already.
ChosenOptimiser read_optimiser(const TrainOptions& options, const Recipe& recipe, const ModelDefaults& model,
                               const AlgorithmSpec& algorithm);

}  // namespace sotto
