#include "app/report/run_difference.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "app/report/step_rows.h"
#include "app/train/record/evaluations.h"
#include "sotto/core/options.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

struct Departure {
  std::uint64_t done;  // how many steps were made by then
  std::string text;
};

bool same_value(double one, double other) { return one == other || (std::isnan(one) && std::isnan(other)); }

// The rows of steps.csv in the order of steps.
std::map<std::pair<std::uint64_t, std::uint64_t>, double> losses_of(const fs::path& run, std::uint64_t first,
                                                                    std::uint64_t end) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> losses;
  for (const StepFigures& row : read_step_rows(run / "steps.csv").rows) {
    if (row.step >= first && row.step < end) losses[{row.step, row.rank}] = row.loss;
  }
  return losses;
}

std::optional<Departure> different_step(const fs::path& run, const fs::path& replay, std::uint64_t first,
                                        std::uint64_t end) {
  const auto losses = losses_of(replay, first, end);
  for (const auto& [at, loss] : losses_of(run, first, end)) {
    const auto& [step, rank] = at;
    const auto found = losses.find(at);
    if (found == losses.end()) {
      return Departure{step + 1, fmt::format("step {}: rank {} did not make it again", step, rank)};
    }
    if (same_value(loss, found->second)) continue;
    return Departure{step + 1, fmt::format("step {}: the loss of rank {} was {}, and is {} now", step, rank,
                                           format_double(loss), format_double(found->second))};
  }
  return std::nullopt;
}

std::optional<Departure> different_evaluation(const fs::path& run, const fs::path& replay, std::uint64_t first,
                                              std::uint64_t end, std::span<const Metric> metrics) {
  std::map<std::pair<std::uint64_t, Split>, EvaluationRow> rows;
  for (EvaluationRow& row : read_evaluations(replay, metrics)) rows[{row.step, row.split}] = row;
  for (const EvaluationRow& row : read_evaluations(run, metrics)) {
    const auto found = rows.find({row.step, row.split});
    if (row.step <= first || row.step > end || found == rows.end()) continue;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const double was = row.metrics.values.at(i), is = found->second.metrics.values.at(i);
      if (same_value(was, is)) continue;
      return Departure{row.step, fmt::format("the evaluation after step {}: {} {} was {}, and is {} now", row.step,
                                             row.split == Split::train ? "train" : "test", metrics[i].name,
                                             format_double(was), format_double(is))};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string first_difference(const fs::path& run, const fs::path& replay, std::uint64_t first, std::uint64_t end,
                             std::span<const Metric> metrics) {
  const auto step = different_step(run, replay, first, end);
  const auto evaluation = different_evaluation(run, replay, first, end, metrics);
  if (step && (!evaluation || step->done <= evaluation->done)) return step->text;
  return evaluation ? evaluation->text : "";
}

}  // namespace sotto
