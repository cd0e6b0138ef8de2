#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// What all algorithms have in common.

// The key of this rank's messages of this step.
Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input);

// What the optimiser offers of this bucket takes the gradient's place. Once a step and bucket, when it is finished.
void offer_in_place(Worker& worker, const BucketPlan& bucket);

// The optimiser takes its step from the worker's parameters, at which the gradient was taken, and x goes as far; where
// x equals them, it ends at the same bits. So weight decay, and a mean of iterates, are of the model, whatever share of
// it x is. x is a stretch of a vector of this rank's own, or of the parameters themselves, that begins at `begin`; no
// other parameters change. Call it once a step and stretch, when that gradient is finished. `scratch` is overwritten.
void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr, std::vector<float>& scratch);
// The same of a whole vector, bucket by bucket.
void step_all(Worker& worker, std::span<float> x, double lr, std::vector<float>& scratch);

// Computes the gradient of a step, and returns its loss, while the thread goes on with what is on its way. When that
// fails, its error is the one to report: not what it does to those exchanges, which are waited for.
double compute_beside(CommThread& thread, Worker& worker, std::uint64_t step, const BucketCalls& calls = {});

}  // namespace sotto
