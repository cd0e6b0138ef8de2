#include "sotto/algorithm/worker.h"

#include "sotto/aggregate/aggregate.h"

namespace sotto {

void offer_in_place(Worker& worker, const BucketPlan& bucket) {
  const auto gradient = worker.gradient().subspan(bucket.range.begin, bucket.range.size());
  const auto offered = worker.optimiser().offer(gradient, bucket.range.begin);
  if (offered.data() != gradient.data()) std::ranges::copy(offered, gradient.begin());
}

void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr, std::vector<float>& scratch) {
  Optimiser& optimiser = worker.optimiser();
  const auto offered = optimiser.offer(worker.gradient().subspan(begin, x.size()), begin);
  const auto shown = worker.parameters().subspan(begin, x.size());
  if (x.data() == shown.data()) return optimiser.apply(x, offered, begin, lr);
  scratch.assign(shown.begin(), shown.end());  // a copy, because backward may still read the parameters
  optimiser.apply(scratch, offered, begin, lr);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] == shown[i] ? scratch[i] : x[i] + (scratch[i] - shown[i]);
  }
}

void step_all(Worker& worker, std::span<float> x, double lr, std::vector<float>& scratch) {
  for (const BucketPlan& bucket : worker.buckets()) {
    step_stretch(worker, x.subspan(bucket.range.begin, bucket.range.size()), bucket.range.begin, lr, scratch);
  }
}

bool on_any_rank(bool mine, Communicator& communicator) {
  float any = mine ? 1.0F : 0.0F;
  communicator.all_reduce(std::span(&any, 1), ReduceOp::max);
  return any > 0;
}

void divide(std::span<const float> x, double weight, std::span<float> quotient) {
  const auto by = static_cast<float>(weight);
  std::ranges::transform(x, quotient.begin(), [&](float value) { return value / by; });
}

void average_by_weight(std::span<float> x, double& weight, Communicator& communicator, bool counts) {
  if (!counts) {
    std::ranges::fill(x, 0.0F);
    weight = 0;
  }
  aggregate(x, Op::sum, communicator);
  communicator.all_reduce(std::span(&weight, 1));
  divide(x, weight, x);
  weight = 1;
}

void average_members(std::span<float> x, Communicator& communicator, bool counts) {
  double weight = 1;
  average_by_weight(x, weight, communicator, counts);
}

}  // namespace sotto
