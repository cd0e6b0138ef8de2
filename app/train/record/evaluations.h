#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/options.h"
#include "app/task/metric.h"
#include "app/task/task.h"
#include "app/train/options/choices.h"
#include "app/train/replica.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/csv_table.h"

namespace sotto {

// A row of evaluations.csv.
struct EvaluationRow {
  std::uint64_t step = 0;  // steps made so far
  double epoch = 0;
  double seconds = 0;            // training time so far, over all starts of the run, without evaluations
  std::uint64_t bytes_sent = 0;  // so far, by the steps of all ranks
  Split split = Split::test;
  Metrics metrics;
};

// The rows of a run's evaluations.csv, without a last line that a crash cut off; nothing if there is no such file.
// FileError if its columns do not belong to the metrics `kinds`, or a row is invalid.
std::vector<EvaluationRow> read_evaluations(const std::filesystem::path& train_dir, std::span<const Metric> kinds);

// A row of consensus.csv: how far the models of the ranks were apart at an evaluation.
struct ConsensusRow : EvaluationRow {  // without a split and metrics
  double distance = 0;
  std::vector<double> rank_goals;  // the goal metric of each rank's own model
};
inline constexpr std::string_view consensus_file = "consensus.csv";
// `goals` names the columns of the ranks.
CsvTable<ConsensusRow> consensus_table(std::span<const std::string> goals);

// The rows of a run's consensus.csv, without a last line that a crash cut off; nothing if there is no such file.
// FileError, with the line, if it holds something else.
std::vector<ConsensusRow> read_consensus(const std::filesystem::path& train_dir);

// All evaluations of a run: their file, the best model, and whether the target was reached. Every rank adds the same
// rows and so knows the same; only rank 0 writes the file.
class Evaluations {
 public:
  Evaluations(std::span<const Metric> kinds, const Metric& goal, const std::optional<Target>& target);

  // Rank 0, before a run starts or continues after `step`: removes later rows from the file, and returns the remaining
  // ones. FileError if the file has other columns or an invalid row.
  std::string prepare(const std::filesystem::path& train_dir, std::uint64_t step) const;
  // Adds the rows that prepare() returned on rank 0.
  void take_up(const std::string& rows);

  bool has(std::uint64_t step) const { return last_ == step; }  // whether the last test row has this step
  void add(const EvaluationRow& row);
  // Rank 0. FileError.
  void append(const std::filesystem::path& train_dir, std::span<const EvaluationRow> rows) const;

  const std::optional<Target>& target() const { return target_; }
  // The row of the test split with the best goal metric; ties go to the earliest. A row with a value that is not finite
  // is never the best.
  const std::optional<EvaluationRow>& best() const { return best_; }
  // The first row of the test split that reaches the target.
  const std::optional<EvaluationRow>& reached() const { return reached_; }

 private:
  std::span<const Metric> kinds_;
  Metric goal_;
  std::optional<Target> target_;
  std::optional<EvaluationRow> best_, reached_;
  std::optional<std::uint64_t> last_;
};

// An AfterBatch throws this to break off an evaluation. The other ranks finish their part.
struct BrokenOff {};

// The mean of the ranks' models, and their distance from it: the root of the mean of |x_r - mean|^2.
struct MeanModel {
  std::vector<float> parameters;
  double distance = 0;
};
MeanModel mean_model(std::span<const float> parameters, Communicator& communicator);

// The quality of a run's model on the test examples: of the mean model, if ranks have their own models.
struct TestResult {
  Metrics metrics;
  Metric goal;
  // If ranks have their own models; otherwise empty and 0:
  std::vector<double> rank_goals;  // the goal metric of each rank's own model
  double consensus_distance = 0;   // the root of the mean over ranks of |x_r - mean|^2

  std::string text() const;  // one line
};

// Collective. Each rank evaluates the common model on its share of the examples. If ranks have their own models, each
// first evaluates its own one on all examples. `after_batch` hears of each evaluation. Nothing if `after_batch` broke
// off an evaluation on some rank.
std::optional<TestResult> test_together(Replica& replica, bool replicated, const Metric& goal,
                                        Communicator& communicator, const AfterBatch& after_batch);

// False if the model diverged: its loss is not finite, or far larger than that of guessing.
bool makes_sense(const TestResult& tested, double loss_of_guessing);
// NumericError unless makes_sense().
void require_sense(const TestResult& tested, double loss_of_guessing, std::uint64_t step);

// Whether the ranks average batch-norm statistics in every step. ConfigError if this is requested but the model has no
// such statistics, or the algorithm does not make all ranks train the same model in lockstep.
bool averages_batch_norm(const Choices& choices, Task& task, int ranks);

// Averages the statistics after a step of a replicated algorithm; adds the seconds that this takes to the step's
// report. Collective. REQUIRES Algorithm::drain() before.
void average_batch_norm(Task& task, Communicator& communicator, StepReport& report);

// The first `idle` ranks do not train and have no statistics of their own: they take the mean of the other ranks'
// statistics. That mean is then also the mean of all ranks. Collective.
void lend_batch_norm(Task& task, int idle, Communicator& communicator);

}  // namespace sotto
