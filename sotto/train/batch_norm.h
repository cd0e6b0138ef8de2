#pragma once

#include "sotto/model/model.h"
#include "sotto/train/options.h"

namespace sotto {

// Whether the ranks average batch-norm statistics in every step. ConfigError where that is asked for, and the model has
// none, or the algorithm gives ranks models of their own, or some of the ranks none to train.
bool averages_batch_norm(const TrainOptions& options, Model& model, int ranks);

}  // namespace sotto
