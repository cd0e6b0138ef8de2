#include "app/report/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>

#include "app/train/folder/folder_lock.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::size_t pace_steps = 50;  // the pace is measured over so many steps

// The last rows of each rank of the group that made the last step.
std::map<std::uint64_t, std::vector<StepFigures>> last_rows(std::span<const StepFigures> rows, std::size_t most) {
  std::map<std::uint64_t, std::vector<StepFigures>> ranks;
  std::uint64_t group = 0;
  for (const StepFigures& row : rows) group = std::max(group, row.group);
  for (std::size_t i = rows.size(); i-- > 0;) {
    if (rows[i].group != group) continue;
    std::vector<StepFigures>& of = ranks[rows[i].rank];
    if (of.size() < most) of.push_back(rows[i]);  // the latest one first
  }
  return ranks;
}

}  // namespace

std::vector<StepFigures> LiveRun::latest() const {
  std::vector<StepFigures> found;
  for (const auto& [rank, of] : last_rows(rows, 1)) found.push_back(of.front());
  return found;
}

std::vector<RankTimes> LiveRun::recent(std::size_t most) const {
  std::vector<StepFigures> some;
  for (const auto& [rank, of] : last_rows(rows, most)) some.insert(some.end(), of.begin(), of.end());
  return times_of(some);
}

std::optional<double> LiveRun::left() const {
  // From the rank that is furthest; the epochs of a row count up to the beginning of its step.
  const auto ranks = last_rows(rows, pace_steps);
  const auto furthest = std::ranges::max_element(
      ranks, {}, [](const auto& rank) { return std::pair(rank.second.front().epoch, rank.second.front().step); });
  if (furthest == ranks.end() || furthest->second.size() < 2) return std::nullopt;
  const StepFigures &last = furthest->second.front(), &first = furthest->second.back();
  double seconds = 0;
  for (const StepFigures& row : furthest->second) seconds += row.step_ms / 1e3;
  seconds /= static_cast<double>(furthest->second.size());
  double steps = std::numeric_limits<double>::infinity();
  if (last.epoch > first.epoch) {
    const double each = (last.epoch - first.epoch) / static_cast<double>(last.step - first.step);
    steps = (static_cast<double>(options.epochs) - last.epoch) / each - 1;
  }
  if (options.max_steps)
    steps = std::min(steps, static_cast<double>(*options.max_steps) - static_cast<double>(last.step) - 1);
  if (!std::isfinite(steps)) return std::nullopt;
  return std::max(0.0, steps * seconds);
}

bool is_at_work(const std::filesystem::path& folder) {
  const std::optional<bool> held = FolderLock::is_held(folder);
  return held.value_or(!path_exists(folder / "summary.json"));
}

std::optional<LiveRun> read_live_run(const std::string& folder) {
  const std::filesystem::path path(folder);
  if (!path_exists(path)) throw FileError(fmt::format("{}: there is no such run folder", folder));
  LiveRun run;
  run.name = folder;
  while (run.name.size() > 1 && run.name.ends_with('/')) run.name.pop_back();
  run.running = is_at_work(path);  // first: a run that ends meanwhile is looked at once more
  if (!path_exists(path / "config.toml") || !path_exists(path / "steps.csv")) return std::nullopt;
  run.rows = read_step_rows(path / "steps.csv").rows;
  if (run.rows.empty()) return std::nullopt;
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(path / "steps.csv", gone);
  if (gone) return std::nullopt;
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  run.quiet = std::chrono::duration<double>(age).count();
  from_toml((path / "config.toml").string(), run.options);
  run.task = &task_table().require((path / "config.toml").string() + ": task", run.options.task);
  run.evaluations = read_evaluations(path, run.task->metrics);
  if (!run.running && path_exists(path / "summary.json")) run.summary = read_summary(path);
  if (run.summary && is_outdated(*run.summary, run.rows)) run.summary.reset();
  return run;
}

}  // namespace sotto
