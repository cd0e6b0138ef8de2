#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/report/curve.h"
#include "app/report/run_summary.h"
#include "app/report/settings.h"
#include "app/task/table.h"
#include "app/train/options/options.h"
#include "app/train/record/codec_error_csv.h"
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
  Curve loss, rate;                   // of every step: the training loss, the learning rate
  Curve consensus;                    // the distance of the models of the ranks, at evaluations; empty if they have one
  std::vector<RankTimes> ranks;       // none: no step was made
  MeasuredTensors tensors;            // no rows: the run did not measure its codec
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

}  // namespace sotto
