#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/data/options.h"
#include "app/task/metric.h"

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
// FileError if it has other columns than those of the task's metrics, or an invalid row.
std::vector<EvaluationRow> read_evaluations(const std::filesystem::path& train_dir, std::span<const Metric> kinds);

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

}  // namespace sotto
