#include "sotto/algorithm/compute.h"

#include <algorithm>

namespace sotto {

Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input) {
  return {options.seed, static_cast<std::uint16_t>(communicator.rank()), options.generation,
          static_cast<std::uint32_t>(input.step), input.lr};
}

void offer_in_place(Worker& worker, const BucketPlan& bucket) {
  const auto gradient = worker.gradient().subspan(bucket.range.begin, bucket.range.size());
  const auto offered = worker.optimiser().outgoing(gradient, bucket.range.begin);
  if (offered.data() != gradient.data()) std::ranges::copy(offered, gradient.begin());
}

void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr) {
  Optimiser& optimiser = worker.optimiser();
  optimiser.apply(x, optimiser.outgoing(worker.gradient().subspan(begin, x.size()), begin), begin, lr);
}

double compute_beside(CommThread& thread, Worker& worker, std::uint64_t step, const BucketCalls& calls) {
  try {
    return worker.compute_gradient(step, calls);
  } catch (...) {
    try {
      thread.wait();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
    throw;
  }
}

}  // namespace sotto
