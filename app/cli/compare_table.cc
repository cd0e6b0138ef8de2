#include "app/cli/compare_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/report/run_group.h"

namespace sotto {
namespace {

// A figure over the seeds, from the runs that have it; empty if no run has it.
template <class Figure, class Text>
std::string over_seeds(std::span<const RunSummary> runs, Figure&& figure, Text&& text) {
  const std::optional<Spread> found = spread_over(runs, figure);
  if (!found) return "";
  const std::string shown = found->text(text);
  return found->count < runs.size() ? fmt::format("{} ({} of {})", shown, found->count, runs.size()) : shown;
}

std::string short_number(double value) { return fmt::format("{:.3g}", value); }
std::string ms(double value) { return fmt::format("{:.1f}", value); }
std::string ratio(double value) { return value > 0 ? ms(value) : "-"; }

// "after 40 steps, 3.1 s, 12.5 MB sent by all ranks"
std::string until_text(std::span<const RunSummary> runs) {
  const auto of = [&](auto figure, auto text) {
    return over_seeds(
        runs,
        [&](const RunSummary& run) {
          return run.until && run.until->reached ? std::optional<double>(std::invoke(figure, *run.until))
                                                 : std::nullopt;
        },
        text);
  };
  const std::string steps = of(&TargetReport::step, short_number);
  if (runs.size() == 1) return runs[0].until ? runs[0].until->text() : "";
  if (steps.empty()) return "not reached";
  return fmt::format("after {} steps, {} s, {} sent by all ranks", steps, of(&TargetReport::seconds, ms),
                     of(&TargetReport::bytes_sent, bytes_text));
}

// Why no run of the row came to its end.
std::string failure_of(const ComparedRow& row) {
  const auto any = [&](auto is) { return std::ranges::any_of(row.runs, is); };
  return any(&ComparedRun::interrupted) ? "interrupted" : any(&ComparedRun::diverged) ? "diverged" : "failed";
}

}  // namespace

std::vector<RunSummary> ComparedRow::ended() const {
  std::vector<RunSummary> all;
  for (const ComparedRun& run : runs) {
    if (run.summary) all.push_back(*run.summary);
  }
  return all;
}

TextTable to_table(std::span<const ComparedRow> rows, std::string_view goal, const std::optional<std::string>& until) {
  const auto apart = [](const RunSummary& run) { return !run.rank_goals.empty(); };
  const bool algorithms =
      std::ranges::any_of(rows, [&](const ComparedRow& row) { return row.algorithm != rows[0].algorithm; });
  const bool any_apart = std::ranges::any_of(rows, [&](const ComparedRow& row) {
    return std::ranges::any_of(row.runs, [&](const ComparedRun& run) { return run.summary && apart(*run.summary); });
  });
  std::vector<std::string> head;
  if (algorithms) head.emplace_back("algorithm");
  head.insert(head.end(), {"codec", fmt::format("test {}", goal)});
  if (any_apart) head.insert(head.end(), {"of the ranks", "distance"});
  if (until) head.push_back(*until);
  head.insert(head.end(),
              {"sent a rank and step", "ratio", "ms a step", "compute", "encode", "network", "decode", "seconds"});
  TextTable table(head);
  if (algorithms) table.left(1);
  for (const ComparedRow& row : rows) {
    std::vector<std::string> cells;
    if (algorithms) cells.push_back(row.algorithm);
    cells.push_back(row.codec);
    const std::vector<RunSummary> runs = row.ended();
    if (runs.empty()) {
      cells.push_back(failure_of(row));
      table.add(cells);
      continue;
    }
    const Metric& metric = runs[0].goal;
    const auto of = [&](auto figure, auto text) { return over_seeds(runs, figure, text); };
    std::string tested = of(&RunSummary::tested, [&](double value) { return metric.with_unit(value); });
    if (tested.empty()) tested = "-";
    if (runs.size() < row.runs.size()) {
      tested += fmt::format(" ({} of {}, then {})", runs.size(), row.runs.size(), failure_of(row));
    }
    cells.push_back(std::move(tested));
    if (any_apart && !apart(runs[0])) {
      cells.insert(cells.end(), {"the same", "0"});
    } else if (any_apart) {
      std::vector<double> goals;
      for (const RunSummary& run : runs) goals.insert(goals.end(), run.rank_goals.begin(), run.rank_goals.end());
      const auto [least, most] = std::ranges::minmax(goals);
      cells.push_back(fmt::format("{} to {}", metric.text(least), metric.with_unit(most)));
      cells.push_back(of(&RunSummary::consensus_distance, short_number));
    }
    if (until) cells.push_back(until_text(runs));
    const auto saved = [](const RunSummary& run) {
      return run.bytes_per_step > 0 ? run.dense_bytes_per_step / run.bytes_per_step : 0;
    };
    cells.insert(cells.end(), {of(&RunSummary::bytes_per_step, bytes_text), of(saved, ratio)});
    for (const auto figure : {&RunSummary::ms_per_step, &RunSummary::compute_ms, &RunSummary::encode_ms,
                              &RunSummary::network_ms, &RunSummary::decode_ms, &RunSummary::seconds}) {
      cells.push_back(of(figure, ms));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string to_json(std::span<const ComparedRow> rows) {
  auto json = nlohmann::ordered_json::array();
  for (const ComparedRow& row : rows) {
    for (const ComparedRun& run : row.runs) {
      auto entry = run.summary ? nlohmann::ordered_json::parse(read_text(run.folder + "/summary.json"))
                               : nlohmann::ordered_json{{"algorithm", row.algorithm},
                                                        {"codec", row.codec},
                                                        {"seed", run.seed},
                                                        {"error", run.interrupted ? "interrupted" : run.error}};
      entry["train_dir"] = run.folder;
      json.push_back(std::move(entry));
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace sotto
