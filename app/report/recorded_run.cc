#include "app/report/recorded_run.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "app/train/folder/folder_lock.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;

void require_folder(const fs::path& folder) {
  if (!path_exists(folder)) throw FileError(fmt::format("{}: there is no such run folder", folder.string()));
}

void require_run(const fs::path& folder) {
  require_folder(folder);
  if (path_exists(folder / "tune.json")) {
    throw FileError(fmt::format("{0}: it holds a search; say which of its runs, or {0}/* for all", folder.string()));
  }
  for (const char* file : {"config.toml", "steps.csv"}) {
    if (path_exists(folder / file)) continue;
    throw FileError(fmt::format("{}: it holds no training run: there is no {} in it", folder.string(), file));
  }
}

std::string name_of(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

// Returns the task.
const TaskEntry* read_options(const fs::path& folder, TrainOptions& options) {
  const std::string path = (folder / "config.toml").string();
  from_toml(path, options);
  return &task_table().require(path + ": task", options.task);
}

void check_ends(const fs::path& folder, std::vector<Note>& notes) {
  for (const char* file :
       {"steps.csv", "evaluations.csv", "consensus.csv", "tensor_bytes.csv", "codec_errors.csv", "membership.csv"}) {
    if (!path_exists(folder / file)) continue;
    const std::string text = read_text(folder / file);
    if (text.empty() || text.ends_with('\n')) continue;
    notes.push_back({fmt::format("the last line of {} is not complete, and was left out", file)});
  }
}

// Counts the rows that ranks lack for steps that their groups made.
class MissingRows {
 public:
  explicit MissingRows(const StepRows& steps) : steps_(steps) {}

  // Adds the steps from `begin` to before `end`, of which the rank has no rows.
  void add(std::uint64_t rank, std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {  // one group after the other
      const auto after = steps_.groups.upper_bound(begin);
      const std::uint64_t until = after == steps_.groups.end() ? end : std::min(end, after->first);
      const auto group = std::prev(after);
      const auto newcomers = steps_.newcomers.find(begin);  // of a group in which this rank has no row yet
      const bool follows = newcomers != steps_.newcomers.end() && newcomers->second.contains(rank);
      if (rank < group->second && !follows) {
        if (count_ == 0) first_ = fmt::format("step {} of rank {}", begin, rank);
        count_ += until - begin;
      }
      begin = until;
    }
  }
  void tell(std::vector<Note>& notes) const {
    if (count_ > 0) notes.push_back({fmt::format("steps.csv lacks {} rows; the first is {}", count_, first_)});
  }

 private:
  const StepRows& steps_;
  std::uint64_t count_ = 0;
  std::string first_;
};

// Notes how the rows differ from an undisturbed run's. A run that has a summary has all rows until its end.
void check_rows(const StepRows& steps, const std::optional<RunSummary>& summary, std::int64_t ranks,
                std::vector<Note>& notes) {
  std::map<std::uint64_t, std::uint64_t> next;  // of each rank
  MissingRows missing(steps);
  std::uint64_t not_finite = 0;
  std::string first_not_finite;
  for (const StepFigures& row : steps.rows) {
    std::uint64_t& expected = next[row.rank];
    missing.add(row.rank, expected, row.step);
    expected = row.step + 1;
    if (std::isfinite(row.loss)) continue;
    if (not_finite++ == 0) first_not_finite = fmt::format("step {} of rank {}", row.step, row.rank);
  }
  for (const auto& [rank, expected] : next) {
    if (summary) missing.add(rank, expected, summary->steps_of(rank));
  }
  missing.tell(notes);
  if (not_finite > 0) {
    notes.push_back(
        {fmt::format("the training loss of {} rows is not finite; the first is {}", not_finite, first_not_finite)});
  }
  if (next.size() < static_cast<std::size_t>(ranks)) {
    notes.push_back({fmt::format("steps.csv has rows of {} ranks; {} were asked for", next.size(), ranks)});
  }
}

// Notes a test that is missing. Every run has one at its end, unless a signal ended it.
void check_evaluations(const RecordedRun& run, std::vector<Note>& notes) {
  if (const auto last = run.last(); run.summary && run.summary->tested && (!last || last->step != run.summary->steps)) {
    notes.push_back({fmt::format("evaluations.csv lacks the test after {} steps", run.summary->steps)});
  }
  for (const EvaluationRow& row : run.evaluations) {
    if (row.split != Split::test || row.metrics.finite()) continue;
    notes.push_back({fmt::format("a metric of the test after {} steps is not finite", row.step)});
    return;
  }
}

void check_summary(std::optional<RunSummary>& summary, std::span<const StepFigures> rows, std::vector<Note>& notes) {
  const bool outdated = summary && is_outdated(*summary, rows);
  if (outdated) summary.reset();
  if (!summary) {
    notes.push_back({fmt::format("{}: it failed, was killed, or still runs",
                                 outdated ? "it continued after its summary.json" : "it has no summary.json")});
    return;
  }
  if (summary->signal != 0) {
    notes.push_back({fmt::format("signal {} ({}) ended it after {} steps", summary->signal,
                                 ::strsignal(summary->signal), summary->steps)});
  }
  if (summary->diverged) {
    notes.push_back(
        {fmt::format("it diverged: its last test is far worse than guessing, after {} steps", summary->steps)});
  }
  if (summary->until && !summary->until->reached) {
    notes.push_back({fmt::format("it did not reach {}", summary->until->target.text())});
  }
  if (summary->first_step > 0) {
    notes.push_back({fmt::format("its last start continued from step {}", summary->first_step), false});
  }
  if (!summary->remark.empty()) notes.push_back({summary->remark, false});
}

// The run's evaluations, with their best and last row, and the first that reaches `target`.
Evaluations looked_at(const RecordedRun& run, const std::optional<Target>& target) {
  Evaluations all(run.task->metrics, run.task->goal_metric(), target);
  for (const EvaluationRow& row : run.evaluations) all.add(row);
  return all;
}

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

std::vector<RankTimes> times_of(std::span<const StepFigures> rows) {
  std::map<std::uint64_t, RankTimes> ranks;
  for (const StepFigures& row : rows) {
    RankTimes& of = ranks[row.rank];
    of.rank = row.rank;
    ++of.steps;
    of.means.add(row);
  }
  std::vector<RankTimes> times;
  for (auto& [rank, of] : ranks) {
    of.means = of.means.mean_over(of.steps);
    times.push_back(of);
  }
  return times;
}

double mean_of(std::span<const RankTimes> ranks, double Recorder::Figures::*figure) {
  double sum = 0;
  for (const RankTimes& rank : ranks) sum += rank.means.*figure;
  return sum / static_cast<double>(ranks.size());
}

std::optional<EvaluationRow> RecordedRun::best() const { return looked_at(*this, {}).best(); }

std::optional<EvaluationRow> RecordedRun::last() const {
  std::optional<EvaluationRow> found;
  for (const EvaluationRow& row : evaluations) {
    if (row.split == Split::test) found = row;
  }
  return found;
}

std::optional<EvaluationRow> RecordedRun::reached(const Target& target) const {
  if (!has_metric(*this, target.metric)) return std::nullopt;
  return looked_at(*this, target).reached();
}

bool has_metric(const RecordedRun& run, const Metric& metric) {
  return metric_table(run.task->metrics).find(metric.name) != nullptr;
}

RecordedRun read_recorded_run(const std::string& folder) {
  const fs::path path(folder);
  require_run(path);
  RecordedRun run;
  run.name = name_of(folder);
  run.task = read_options(path, run.options);
  if (path_exists(path / "summary.json")) run.summary = read_summary(path);
  const StepRows steps = read_step_rows(path / "steps.csv");
  run.evaluations = read_evaluations(path, run.task->metrics);
  run.loss = curve_of_steps(steps.rows, &StepFigures::loss);
  run.rate = curve_of_steps(steps.rows, &StepFigures::lr);
  for (const ConsensusRow& row : read_consensus(path)) {
    run.consensus.add(static_cast<double>(row.step), row.seconds, static_cast<double>(row.bytes_sent), row.distance);
  }
  run.ranks = times_of(steps.rows);
  run.tensors = read_tensor_bytes(path);
  check_codec_errors(path);
  check_summary(run.summary, steps.rows, run.notes);
  check_ends(path, run.notes);
  check_rows(steps, run.summary, run.options.ranks, run.notes);
  check_evaluations(run, run.notes);
  return run;
}

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
  constexpr std::size_t pace_steps = 50;  // the pace is measured over so many steps
  // Computed from the furthest rank. The epochs of a row are those at the beginning of its step.
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
  const fs::path path(folder);
  require_folder(path);
  LiveRun run;
  run.name = name_of(folder);
  run.running = is_at_work(path);  // read first: a run that ends meanwhile is then looked at once more
  if (!path_exists(path / "config.toml") || !path_exists(path / "steps.csv")) return std::nullopt;
  run.rows = read_step_rows(path / "steps.csv").rows;
  if (run.rows.empty()) return std::nullopt;
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(path / "steps.csv", gone);
  if (gone) return std::nullopt;
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  run.quiet = std::chrono::duration<double>(age).count();
  run.task = read_options(path, run.options);
  run.evaluations = read_evaluations(path, run.task->metrics);
  if (!run.running && path_exists(path / "summary.json")) run.summary = read_summary(path);
  if (run.summary && is_outdated(*run.summary, run.rows)) run.summary.reset();
  return run;
}

}  // namespace sotto
