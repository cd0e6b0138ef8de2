#include "app/report/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "app/train/record/consensus_csv.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;

void require_run(const fs::path& folder) {
  if (!path_exists(folder)) throw FileError(fmt::format("{}: there is no such run folder", folder.string()));
  if (path_exists(folder / "tune.json")) {
    throw FileError(fmt::format("{0}: it holds a search; say which of its runs, or {0}/* for all", folder.string()));
  }
  for (const char* file : {"config.toml", "steps.csv"}) {
    if (path_exists(folder / file)) continue;
    throw FileError(fmt::format("{}: it holds no training run: there is no {} in it", folder.string(), file));
  }
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

// Rows that a rank does not have, though its group made the steps.
class MissingRows {
 public:
  explicit MissingRows(const StepRows& steps) : steps_(steps) {}

  // The rank has no rows of the steps from `begin` to before `end`.
  void add(std::uint64_t rank, std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {  // by the groups that made them
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

// Every run that ends has a test at its end, unless a signal ended it.
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

// The rows as a run of this task would look at them.
Evaluations looked_at(const RecordedRun& run, const std::optional<Target>& target) {
  Evaluations all(run.task->metrics, run.task->goal_metric(), target);
  for (const EvaluationRow& row : run.evaluations) all.add(row);
  return all;
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
  run.name = folder;
  while (run.name.size() > 1 && run.name.ends_with('/')) run.name.pop_back();
  from_toml((path / "config.toml").string(), run.options);
  run.task = &task_table().require((path / "config.toml").string() + ": task", run.options.task);
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

}  // namespace sotto
