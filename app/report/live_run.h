#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/report/curve.h"
#include "app/report/recorded_run.h"

namespace sotto {

// A run that may still train, as its folder shows it.
struct LiveRun {
  std::string name;      // the folder
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

// Whether a process is at work in this folder. Where the file system has no locks: unless the run has ended.
bool is_at_work(const std::filesystem::path& folder);

// Nothing: no step has been recorded yet. FileError if there is no such folder, or a file in it is damaged.
std::optional<LiveRun> read_live_run(const std::string& folder);

}  // namespace sotto
