#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/train/evaluate.h"
#include "app/train/options/options.h"
#include "app/train/record/evaluations.h"
#include "app/train/record/recorder.h"

namespace sotto {

// The results of a run: summary.json in its folder. Times are rank 0's means over the steps since the last start,
// except the median. Bytes are payload handed to the transport since then, one number per rank.
struct Summary {
  TrainOptions options;
  std::string method;      // canonical: every option of memory and codec named
  std::string optimiser;   // canonical, too
  double lr = 0;           // before the schedule is applied
  std::string aggregator;  // the one that was used
  std::string remark;      // what was chosen during the run, and why
  Recorder::Figures step;
  double median_step_ms = 0;
  std::uint64_t first_step = 0;           // of this process: the step of the checkpoint that it continued
  std::uint64_t steps = 0;                // of the whole run; if ranks go at their own speed, the mean over ranks
  std::vector<std::uint64_t> rank_steps;  // in that case, the steps of each rank
  std::optional<double> loss_scale;       // at the end, if losses are scaled
  std::uint64_t skipped_steps = 0;        // in that case, those that overflowed; if ranks have their own models, of all
  int signal = 0;                         // the signal that ended the run early, or 0
  TestResult tested;
  bool diverged = false;                                  // that test makes no sense (makes_sense())
  std::optional<EvaluationRow> best;                      // by the goal metric
  std::string best_checkpoint;                            // name of its folder; empty: none
  std::optional<Target> target;                           // of `until`
  std::optional<EvaluationRow> reached;                   // the first row that reached the target
  std::vector<std::uint64_t> bytes_sent, bytes_per_step;  // all bytes; and the mean per step
  std::vector<std::uint64_t> exchanges;    // per rank since the last start, if they depend on the ranks' speed
  std::uint64_t dense_bytes_per_step = 0;  // of an uncompressed all-reduce, per rank
  std::size_t parameters = 0;
  std::string parameters_sha256;  // of the newest checkpoint
  double seconds = 0;
};

// Writes the whole file or none. FileError.
void write_summary(const std::filesystem::path& path, const Summary& summary);

// Writes into a summary that is there how the model was tested after `steps` steps, if a signal ended the run before
// that. Returns whether it did. FileError.
bool note_test(const std::filesystem::path& path, std::uint64_t steps, const TestResult& tested,
               const std::optional<EvaluationRow>& best, const std::string& best_checkpoint);

// Writes into a summary that is there the target that its run has reached already, unless it says so. FileError.
void note_target(const std::filesystem::path& path, const Target& target, const EvaluationRow& reached);

}  // namespace sotto
