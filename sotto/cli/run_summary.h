#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/task/metric.h"

namespace sotto {

struct BestEvaluation {
  std::uint64_t step = 0;
  double value = 0;        // of the goal metric
  std::string checkpoint;  // the name of its folder; empty: there is none
};

// What --until asked for, and what came of it.
struct TargetReport {
  Target target;
  bool reached = false;
  std::uint64_t step = 0;              // then, of the run
  double seconds = 0, bytes_sent = 0;  // and what it had spent by then
  std::string text() const;            // "after 40 steps, 3.1 s, 12.5 MB sent by all ranks"
};

// What the tables show of a run's summary.json.
struct RunSummary {
  std::string codec;
  Metric goal;                     // by which the task tells which of two models is better
  double tested = 0;               // its value on the test examples; of the mean where ranks have models of their own
  std::vector<double> rank_goals;  // then, of each of them
  double consensus_distance = 0;   // and how far they are apart
  std::optional<BestEvaluation> best;
  std::optional<TargetReport> until;  // where --until was said
  std::uint64_t steps = 0;
  double bytes_sent = 0, bytes_per_step = 0;  // mean over the ranks
  double dense_bytes_per_step = 0;
  double ms_per_step = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0;
  double seconds = 0;
};

// FileError when it is missing or is not what a run writes.
RunSummary read_summary(const std::filesystem::path& train_dir);

}  // namespace sotto
