#include "app/report/run_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "app/report/text_table.h"

namespace sotto {
namespace {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// JSON has no numbers that are not finite: a run that diverged has null in their place.
double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace

std::string TargetReport::text() const {
  if (!reached) return "not reached";
  return fmt::format("after {} steps, {:.1f} s, {} sent by all ranks", step, seconds, bytes_text(bytes_sent));
}

bool is_outdated(const RunSummary& summary, std::span<const StepFigures> rows) {
  return std::ranges::any_of(rows, [&](const StepFigures& row) { return row.step >= summary.steps_of(row.rank); });
}

RunSummary read_summary(const std::filesystem::path& train_dir) {
  const auto path = train_dir / "summary.json";
  const std::string text = read_text(path);
  try {
    const auto json = nlohmann::json::parse(text);
    RunSummary summary;
    summary.codec = json.at("codec").get<std::string>();
    const TaskEntry& task = task_table().require(path.string() + ": task", json.at("task").get<std::string>());
    summary.goal = metric_table(task.metrics).require(path.string() + ": goal", json.at("goal").get<std::string>());
    if (const auto& tested = json.at(fmt::format("test_{}", summary.goal.name)); !tested.is_null()) {
      summary.tested = tested.get<double>();
    }
    for (const auto& value : json.at(fmt::format("rank_{}", summary.goal.name))) {
      summary.rank_goals.push_back(number_of(value));
    }
    summary.consensus_distance = number_of(json.at("consensus_distance"));
    if (const auto& best = json.at("best"); !best.is_null()) {
      summary.best =
          BestEvaluation{best.at("step").get<std::uint64_t>(), best.at(std::string(summary.goal.name)).get<double>(),
                         best.value("checkpoint", "")};
    }
    if (const auto& until = json.at("until"); !until.is_null()) {
      const auto name = until.at("metric").get<std::string>();
      TargetReport& found = summary.until.emplace();
      found.target = {metric_table(task.metrics).require(path.string() + ": until", name),
                      until.at("value").get<double>()};
      found.reached = until.at("reached").get<bool>();
      found.step = until.value("step", found.step);
      found.seconds = until.value("seconds", 0.0);
      found.bytes_sent = until.value("bytes_sent", 0.0);
    }
    summary.steps = json.at("steps").get<std::uint64_t>();
    summary.rank_steps = json.value("rank_steps", std::vector<std::uint64_t>());
    summary.bytes_sent = mean(json.at("bytes_sent").get<std::vector<double>>());
    summary.bytes_per_step = mean(json.at("bytes_per_step").get<std::vector<double>>());
    summary.dense_bytes_per_step = json.at("dense_bytes_per_step").get<double>();
    summary.remark = json.at("remark").get<std::string>();
    summary.signal = json.at("interrupted_by_signal").get<int>();
    summary.diverged = json.value("diverged", false);
    summary.first_step = json.at("first_step").get<std::uint64_t>();
    summary.ms_per_step = json.at("ms_per_step").get<double>();
    summary.compute_ms = json.at("compute_ms").get<double>();
    summary.encode_ms = json.at("encode_ms").get<double>();
    summary.network_ms = json.at("network_ms").get<double>();
    summary.decode_ms = json.at("decode_ms").get<double>();
    summary.seconds = json.at("seconds").get<double>();
    summary.parameters_sha256 = json.value("parameters_sha256", "");
    return summary;
  } catch (const nlohmann::json::exception& error) {
    throw FileError(fmt::format("{}: not the summary of a run: {}", path.string(), error.what()));
  }
}

}  // namespace sotto
