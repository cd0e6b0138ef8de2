#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/report/curve.h"
#include "app/report/run_group.h"
#include "app/report/run_summary.h"
#include "app/task/table.h"
#include "app/train/options/options.h"
#include "app/train/record/gradient_study.h"
#include "app/train/record/recorder.h"

namespace sotto {

// Where the time of a rank's steps went: means over its rows.
struct RankTimes {
  std::uint64_t rank = 0, steps = 0;
  Recorder::Figures means;
};

std::vector<RankTimes> times_of(std::span<const StepFigures> rows);
// A figure's mean over ranks. REQUIRES a rank.
double mean_of(std::span<const RankTimes> ranks, double Recorder::Figures::*figure);

// Something about a run that a reader should know.
struct Note {
  std::string text;
  bool is_wrong = true;  // otherwise it is only a remark
};

// A run folder, read.
struct RecordedRun {
  std::string name;  // the folder, as it was given
  TrainOptions options;
  const TaskEntry* task = nullptr;
  std::optional<RunSummary> summary;  // none: the run has not ended, or failed
  Curve loss, rate;                   // for every step, the training loss and the learning rate
  Curve consensus;               // the distance of the ranks' models at evaluations; empty if all have the same model
  std::vector<RankTimes> ranks;  // none: no step was made
  MeasuredTensors tensors;       // no rows: the run did not measure its codec
  std::vector<EvaluationRow> evaluations;
  std::vector<Note> notes;

  // The best and the last row of the test split, and the first that reaches the target.
  std::optional<EvaluationRow> best() const, last() const, reached(const Target&target) const;
};

// Whether the run's task has a metric of this name.
bool has_metric(const RecordedRun& run, const Metric& metric);

// FileError or ConfigError, which names the file and, within it, the line: the folder is missing or holds no run, or
// one of its files is damaged.
RecordedRun read_recorded_run(const std::string& folder);

// A run that may still be training, read from its folder.
struct LiveRun {
  std::string name;
  bool running = false;  // a process is at work there
  TrainOptions options;
  const TaskEntry* task = nullptr;
  std::vector<StepFigures> rows;
  std::vector<EvaluationRow> evaluations;
  std::optional<RunSummary> summary;  // none while it runs, and if it failed or was killed
  double quiet = 0;                   // seconds since the last rows were written

  Curve loss() const { return curve_of_steps(rows, &StepFigures::loss); }
  // Each rank's latest row, by rank.
  std::vector<StepFigures> latest() const;
  // Means over the last rows of each rank, at most `most` of each.
  std::vector<RankTimes> recent(std::size_t most) const;
  // Seconds until the last step at the pace of the last steps, without evaluations; nothing before the second step.
  std::optional<double> left() const;
};

// Whether a process is at work in this folder. If the file system has no locks: whether the run has not ended.
bool is_at_work(const std::filesystem::path& folder);

// Reads a run; nothing if no step has been recorded yet. FileError if there is no such folder, or a file in it is
// damaged.
std::optional<LiveRun> read_live_run(const std::string& folder);

}  // namespace sotto
