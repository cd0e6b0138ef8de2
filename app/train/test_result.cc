#include "app/train/test_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "app/train/evaluate.h"

namespace sotto {

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
