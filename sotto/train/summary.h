#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/train/evaluations.h"
#include "sotto/train/options.h"
#include "sotto/train/recorder.h"
#include "sotto/train/test_result.h"

namespace sotto {

// What a run came to; summary.json in its folder. Times are means of rank 0 over the steps since the last start, but
// for the one that is called a median; bytes are payload handed to the transport since then, one number a rank.
struct Summary {
  TrainOptions options;
  std::string method;      // canonical: every option of memory and codec named
  std::string optimiser;   // canonical, too
  double lr = 0;           // before the schedule
  std::string aggregator;  // the one in use
  std::string remark;      // what was chosen while it ran, and why
  Recorder::Figures step;
  double median_step_ms = 0;
  std::uint64_t first_step = 0;           // of this process: that of the checkpoint it continued
  std::uint64_t steps = 0;                // of the whole run; where ranks go at their own speed, of one on average
  std::vector<std::uint64_t> rank_steps;  // and there, of each
  int signal = 0;                         // that ended it early, or 0
  TestResult tested;
  std::optional<EvaluationRow> best;                      // by the goal metric
  std::string best_checkpoint;                            // the name of its folder; empty: there is none
  std::optional<Target> target;                           // of `until`
  std::optional<EvaluationRow> reached;                   // the first one that reached it
  std::vector<std::uint64_t> bytes_sent, bytes_per_step;  // all; and of steps alone, the mean
  std::vector<std::uint64_t> exchanges;    // of each rank since the last start, where they depend on how fast ranks are
  std::uint64_t dense_bytes_per_step = 0;  // of an uncompressed all-reduce, on one rank
  std::size_t parameters = 0;
  std::string parameters_sha256;  // of the newest checkpoint
  double seconds = 0;
};

void write_summary(const std::filesystem::path& path, const Summary& summary);

}  // namespace sotto
