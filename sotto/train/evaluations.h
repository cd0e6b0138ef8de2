#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "sotto/data/options.h"
#include "sotto/task/metric.h"

namespace sotto {

// A row of evaluations.csv.
struct EvaluationRow {
  std::uint64_t step = 0;  // steps that the run had made
  double epoch = 0;
  double seconds = 0;            // of training until then, over all starts of the run; evaluations are not in it
  std::uint64_t bytes_sent = 0;  // until then, by the steps of all ranks
  Split split = Split::test;
  Metrics metrics;
};

// All evaluations of a run: the file, which model was the best, and whether the target was reached. Every rank adds the
// same rows and so knows the same; rank 0 alone writes the file.
class Evaluations {
 public:
  Evaluations(std::span<const Metric> kinds, const Metric& goal, const std::optional<Target>& target);

  // Rank 0, before a run begins or goes on after `step`: leaves the rows until then in the file, and returns them.
  // FileError when the file has other columns, or a row that is none.
  std::string prepare(const std::filesystem::path& train_dir, std::uint64_t step) const;
  // Adds the rows that prepare() returned.
  void take_up(const std::string& rows);

  bool has(std::uint64_t step) const { return last_ == step; }  // whether the last row of the test split is of it
  void add(const EvaluationRow& row);
  // Rank 0. FileError.
  void append(const std::filesystem::path& train_dir, std::span<const EvaluationRow> rows) const;

  const Metric& goal() const { return goal_; }
  const std::optional<Target>& target() const { return target_; }
  // Of the test split: the row with the best goal metric, the earliest of equals; a row with a value that is not finite
  // is never the best one.
  const std::optional<EvaluationRow>& best() const { return best_; }
  // Of the test split: the first row that reaches the target.
  const std::optional<EvaluationRow>& reached() const { return reached_; }

 private:
  std::string header() const;
  EvaluationRow parse(const std::string& line) const;

  std::span<const Metric> kinds_;
  Metric goal_;
  std::optional<Target> target_;
  std::optional<EvaluationRow> best_, reached_;
  std::optional<std::uint64_t> last_;
};

}  // namespace sotto
