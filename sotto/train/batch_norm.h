#pragma once

#include "sotto/comm/communicator.h"
#include "sotto/task/task.h"
#include "sotto/train/choices.h"

namespace sotto {

// Whether the ranks average batch-norm statistics in every step. ConfigError where that is asked for, and the model has
// none, or the algorithm does not have all ranks train the same model, step by step together.
bool averages_batch_norm(const Choices& choices, Task& task, int ranks);

// The first `idle` ranks train nothing and so have no statistics: they take the mean of the others', which that of all
// is then. Collective.
void lend_batch_norm(Task& task, int idle, Communicator& communicator);

}  // namespace sotto
