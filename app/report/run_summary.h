#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/report/curve.h"
#include "app/task/metric.h"

namespace sotto {

struct BestEvaluation {
  std::uint64_t step = 0;
  double value = 0;        // of the goal metric
  std::string checkpoint;  // the name of its folder; empty: there is none
};

// The target of the option `until`, and the result.
struct TargetReport {
  Target target;
  bool reached = false;
  std::uint64_t step = 0;              // the step at which the target was reached; otherwise the last step
  double seconds = 0, bytes_sent = 0;  // spent until then
  std::string text() const;            // "after 40 steps, 3.1 s, 12.5 MB sent by all ranks"
};

// The part of a run's summary.json that the tables show.
struct RunSummary {
  std::string codec;
  Metric goal;  // decides which of two models is better
  // The value of `goal` on the test examples, for the mean model if ranks have their own models. Nothing if a signal
  // ended the run before the test.
  std::optional<double> tested;
  std::vector<double> rank_goals;  // the value of `goal` for each rank's own model
  double consensus_distance = 0;   // how far these models are apart
  std::optional<BestEvaluation> best;
  std::optional<TargetReport> until;  // if the option was given
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> rank_steps;      // of each rank, if ranks go at their own speed
  double bytes_sent = 0, bytes_per_step = 0;  // mean over the ranks
  double dense_bytes_per_step = 0;            // of an uncompressed all-reduce, per rank
  std::string remark;                         // the choices during the run, with reasons
  int signal = 0;                             // the signal that ended the run early, or 0
  bool diverged = false;                      // the run learned nothing, and its exit status was 1
  std::uint64_t first_step = 0;               // the step from which the last start continued
  double ms_per_step = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0;
  double seconds = 0;
  std::string parameters_sha256;  // at the end

  std::uint64_t steps_of(std::uint64_t rank) const { return rank < rank_steps.size() ? rank_steps[rank] : steps; }
  std::string tested_text() const { return tested ? goal.with_unit(*tested) : "-"; }
};

// Whether there are rows of later steps than the summary's: the run continued after it had written the summary, and has
// not ended since.
bool is_outdated(const RunSummary& summary, std::span<const StepFigures> rows);

// FileError if summary.json is missing or damaged.
RunSummary read_summary(const std::filesystem::path& train_dir);

}  // namespace sotto
