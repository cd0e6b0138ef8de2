#include "app/report/run_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "app/report/curve.h"
#include "app/train/record/evaluations.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

constexpr std::array no_settings =
    std::to_array<std::string_view>({"train-dir", "resume", "master", "capture", "csv-format", "measure-errors",
                                     "csv-tag", "tensorboard", "metrics-port"});

std::string value_of(const Settings& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? "" : found->value;
}

// "ef | topk(0.01)" where only one option differs, "codec=none, lr=0.1" where several do.
std::string group_name(std::span<const Difference> differing, std::size_t group) {
  const auto said = [&](const Difference& one) {
    const std::string& value = one.values[group];
    return value.empty() ? std::string("-") : value;
  };
  if (differing.size() == 1) return said(differing[0]);
  std::string name;
  for (const Difference& one : differing) {
    name += fmt::format("{}{}={}", name.empty() ? "" : ", ", one.name, said(one));
  }
  return name;
}

struct Departure {
  std::uint64_t done;  // the number of steps made by then
  std::string text;
};

bool same_value(double one, double other) { return one == other || (std::isnan(one) && std::isnan(other)); }

// The losses in steps.csv by step and rank, from step `first` to before `end`.
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

std::string RunGroup::title() const { return runs.size() > 1 ? fmt::format("{} ({} runs)", name, runs.size()) : name; }

Settings settings_of(Settings options) {
  std::erase_if(options,
                [](const Setting& option) { return std::ranges::find(no_settings, option.name) != no_settings.end(); });
  return options;
}

std::vector<Difference> differences(std::span<const Settings> runs) {
  std::vector<std::string> names;
  for (const Settings& settings : runs) {
    for (const Setting& option : settings) {
      if (std::ranges::find(names, option.name) == names.end()) names.push_back(option.name);
    }
  }
  std::vector<Difference> found;
  for (const std::string& name : names) {
    Difference one{name, {}};
    for (const Settings& settings : runs) one.values.push_back(value_of(settings, name));
    if (std::ranges::any_of(one.values, [&](const std::string& value) { return value != one.values[0]; })) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

std::vector<RunGroup> group_by_seed(std::span<const Settings> runs, std::span<const std::string> folders) {
  std::vector<RunGroup> groups;
  std::vector<Settings> kinds;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Settings kind = runs[r];
    std::erase_if(kind, [](const Setting& option) { return option.name == "seed"; });
    const auto at = static_cast<std::size_t>(std::ranges::find(kinds, kind) - kinds.begin());
    if (at == kinds.size()) {
      kinds.push_back(std::move(kind));
      groups.emplace_back();
    }
    groups[at].runs.push_back(r);
  }
  const std::vector<Difference> differing = differences(kinds);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].name = groups.size() == 1 ? folders[groups[g].runs[0]] : group_name(differing, g);
  }
  return groups;
}

std::string Spread::text(const std::function<std::string(double)>& one) const {
  const std::string around = one(deviation);
  return around == one(0) ? one(mean) : fmt::format("{} ± {}", one(mean), around);
}

Spread spread_of(std::span<const double> values) {
  Spread spread{.count = values.size()};
  const auto count = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2 || !std::isfinite(spread.mean)) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

std::vector<bool> near_best(std::span<const Spread> figures, bool rises) {
  double usual = 0;  // deviation of a figure of one run
  std::optional<Spread> best;
  for (const Spread& figure : figures) {
    usual = std::max(usual, figure.deviation);
    if (!std::isfinite(figure.mean)) continue;
    if (!best || (rises ? figure.mean > best->mean : figure.mean < best->mean)) best = figure;
  }
  const auto deviation = [&](const Spread& of) { return of.count > 1 ? of.deviation : usual; };
  std::vector<bool> near;
  for (const Spread& figure : figures) {
    near.push_back(best && std::isfinite(figure.mean) &&
                   std::abs(figure.mean - best->mean) <= std::hypot(deviation(figure), deviation(*best)));
  }
  return near;
}

std::string first_difference(const fs::path& run, const fs::path& replay, std::uint64_t first, std::uint64_t end,
                             std::span<const Metric> metrics) {
  const auto step = different_step(run, replay, first, end);
  const auto evaluation = different_evaluation(run, replay, first, end, metrics);
  if (step && (!evaluation || step->done <= evaluation->done)) return step->text;
  return evaluation ? evaluation->text : "";
}

}  // namespace sotto
