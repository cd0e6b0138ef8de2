#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// Functions that all algorithms share.

// The key of this rank's messages in this step.
Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input);

// Replaces the gradient of this bucket by what the optimiser offers in its place. Once per step and bucket, when the
// gradient is finished.
void offer_in_place(Worker& worker, const BucketPlan& bucket);

// Computes the optimiser's step for the stretch of the parameters that begins at `begin` and has x.size() elements, and
// moves x as far. x is part of a vector of this rank's own, or is that stretch itself; no other parameters change. If x
// equals the parameters, it ends at the same bits as they would. So weight decay, and a mean of iterates, apply to the
// model even where x is only a share of it (push-sum). Call it once per step and stretch, when that gradient is
// finished. `scratch` is overwritten.
void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr, std::vector<float>& scratch);
// The same for a whole vector, bucket by bucket.
void step_all(Worker& worker, std::span<float> x, double lr, std::vector<float>& scratch);

// x = the mean of the x of those ranks that count, on every rank. Collective.
void average_members(std::span<float> x, Communicator& communicator, bool counts);

// Computes the gradient of a step, and returns its loss, while `thread` goes on with what is on its way. If computing
// fails, waits for these exchanges, and throws the error of computing, not theirs.
double compute_beside(CommThread& thread, Worker& worker, std::uint64_t step, const BucketCalls& calls = {});

// Whether the gradient of any rank overflows. First waits for the work posted to `thread` before. Collective.
bool any_overflows(bool mine, CommThread& thread, Communicator& communicator);

}  // namespace sotto
