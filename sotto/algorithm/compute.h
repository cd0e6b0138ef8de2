#pragma once

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// What all algorithms have in common.

// The key of this rank's messages of this step.
Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input);

// What the optimiser offers of this bucket takes the gradient's place. Once a step and bucket, when it is finished.
void offer_in_place(Worker& worker, const BucketPlan& bucket);

// x, a stretch of a vector of this rank's own that begins at `begin`, takes the optimiser's step by what is offered of
// this rank's gradient. Once a step and stretch, when that is finished.
void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr);

// Computes the gradient of a step, and returns its loss, while the thread goes on with what is on its way. When that
// fails, its error is the one to report: not what it does to those exchanges, which are waited for.
double compute_beside(CommThread& thread, Worker& worker, std::uint64_t step, const BucketCalls& calls = {});

}  // namespace sotto
