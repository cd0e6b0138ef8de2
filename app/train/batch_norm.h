#pragma once

#include "app/task/task.h"
#include "app/train/options/choices.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"

namespace sotto {

// Whether the ranks average batch-norm statistics in every step. ConfigError if this is requested but the model has no
// such statistics, or the algorithm does not make all ranks train the same model in lockstep.
bool averages_batch_norm(const Choices& choices, Task& task, int ranks);

// After a step of a replicated algorithm, whose report gets the seconds that this took. Collective. REQUIRES
// Algorithm::drain() before.
void average_batch_norm(Task& task, Communicator& communicator, StepReport& report);

// The first `idle` ranks do not train and have no statistics of their own: they take the mean of the other ranks'
// statistics. That mean is then also the mean of all ranks. Collective.
void lend_batch_norm(Task& task, int idle, Communicator& communicator);

}  // namespace sotto
