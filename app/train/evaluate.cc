#include "app/train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/aggregate.h"

namespace sotto {

namespace {

// Replaces values as long as this object lives; does nothing if `values` is empty.
class Replaced {
 public:
  Replaced(std::span<float> place, std::span<const float> values) : place_(place) {
    if (values.empty()) return;
    own_.assign(place.begin(), place.end());
    std::ranges::copy(values, place.begin());
  }
  ~Replaced() { std::ranges::copy(own_, place_.begin()); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  std::span<float> place_;
  std::vector<float> own_;
};

// A rank that breaks off cannot leave the others alone, so all agree at the end.
std::optional<Tally> evaluate_share(Task& task, Split split, Share share, Communicator& communicator,
                                    const AfterBatch& after_batch) {
  std::optional<Tally> sums;
  try {
    sums = task.evaluate(split, share, after_batch);
  } catch (const BrokenOff&) {  // NOLINT(bugprone-empty-catch)
  }
  auto broken_off = sums ? 0.0F : 1.0F;
  communicator.all_reduce(std::span(&broken_off, 1), ReduceOp::max);
  if (broken_off > 0) sums.reset();
  return sums;
}

}  // namespace

std::optional<Tally> evaluate_alone(Task& task, std::span<const float> parameters, Split split,
                                    Communicator& communicator, const AfterBatch& after_batch) {
  const Replaced wanted(task.parameters(), parameters);
  return evaluate_share(task, split, {}, communicator, after_batch);
}

std::optional<Tally> evaluate_together(Task& task, std::span<const float> parameters, Split split,
                                       Communicator& communicator, const AfterBatch& after_batch) {
  std::vector<float> buffers(task.buffers().begin(), task.buffers().end());
  aggregate(buffers, Op::avg, communicator);
  const Replaced mean(task.buffers(), buffers), wanted(task.parameters(), parameters);
  auto sums = evaluate_share(task, split, {communicator.rank(), communicator.size()}, communicator, after_batch);
  if (sums) communicator.all_reduce(std::span<double>(*sums));
  return sums;
}

MeanModel mean_model(std::span<const float> parameters, Communicator& communicator) {
  MeanModel mean{{parameters.begin(), parameters.end()}};
  aggregate(mean.parameters, Op::avg, communicator);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double apart = static_cast<double>(parameters[i]) - static_cast<double>(mean.parameters[i]);
    mean.distance += apart * apart;
  }
  communicator.all_reduce(std::span(&mean.distance, 1));
  mean.distance = std::sqrt(mean.distance / communicator.size());
  return mean;
}

}  // namespace sotto
