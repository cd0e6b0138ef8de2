#include "app/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/aggregate/aggregate.h"
#include "sotto/core/error.h"

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

std::string TestResult::text() const {
  const std::string line = "test " + metrics.text();
  if (rank_goals.empty()) return line;
  const auto [least, most] = std::ranges::minmax(rank_goals);
  return line + fmt::format(" of the mean model; ranks' own {} to {}, {:.3g} apart", goal.text(least), goal.text(most),
                            consensus_distance);
}

std::optional<TestResult> test_together(Replica& replica, bool replicated, const Metric& goal,
                                        Communicator& communicator, const AfterBatch& after_batch) {
  Task& task = replica.task();
  TestResult result{.metrics = {}, .goal = goal, .rank_goals = {}};
  auto parameters = replica.to_evaluate();
  MeanModel mean;
  if (!replicated) {
    const auto mine = evaluate_alone(task, parameters, Split::test, communicator, after_batch);
    if (!mine) return std::nullopt;
    const double own = task.metrics(*mine).value(goal.name);
    result.rank_goals.resize(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(result.rank_goals)));
    mean = mean_model(parameters.empty() ? task.parameters() : parameters, communicator);
    result.consensus_distance = mean.distance;
    parameters = mean.parameters;
  }
  const auto all = evaluate_together(task, parameters, Split::test, communicator, after_batch);
  if (!all) return std::nullopt;
  result.metrics = task.metrics(*all);
  return result;
}

TestResult untested(std::span<const Metric> kinds, const Metric& goal) {
  const std::vector<double> none(kinds.size(), std::numeric_limits<double>::quiet_NaN());
  return {.metrics = {kinds, none}, .goal = goal, .rank_goals = {}};
}

bool makes_sense(const TestResult& tested, double loss_of_guessing) {
  constexpr double far = 100;
  const double loss = tested.metrics.value("loss");
  return std::isfinite(loss) && (loss_of_guessing <= 0 || loss <= far * loss_of_guessing);
}

void require_sense(const TestResult& tested, double loss_of_guessing, std::uint64_t step) {
  if (makes_sense(tested, loss_of_guessing)) return;
  throw NumericError(
      fmt::format("the training diverged: its test loss is {:.3g} after step {}, and guessing has {:.3g}; a smaller "
                  "learning rate or a schedule with warmup may help",
                  tested.metrics.value("loss"), step, loss_of_guessing));
}

}  // namespace sotto
