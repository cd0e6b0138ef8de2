#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "app/train/record/evaluations.h"
#include "app/train/record/recorder.h"

namespace sotto {

// A row of steps.csv, and which ranks made the step.
struct StepFigures : StepRow {
  std::uint64_t group = 0;  // the first step of the group of ranks that made it: a key of StepRows::groups
};

struct StepRows {
  // In the order of the file, without a last line that a crash cut off; the steps of each rank ascend.
  std::vector<StepFigures> rows;
  // The groups of ranks: for the first step of each, its number of ranks. A group begins with each start of the run,
  // and when ranks come or go. Without membership.csv there is one group of any size.
  std::map<std::uint64_t, std::uint64_t> groups;
  // For the first step of a group, its newcomers. They may take part in steps before they train, and then have no rows.
  std::map<std::uint64_t, std::set<std::uint64_t>> newcomers;
};

// Reads steps.csv, and membership.csv next to it. FileError, which names file, line and column, if there are other
// columns, a cell is no number, a row is too short, or a rank has a step twice.
StepRows read_step_rows(const std::filesystem::path& path);

// A value over the course of a run, or its mean over several runs, with the lowest and the highest value. All vectors
// have the same length. Values that are not finite are gaps.
struct Curve {
  std::vector<double> step;     // steps made
  std::vector<double> seconds;  // of training, up to this step
  std::vector<double> bytes;    // sent by all ranks, up to this step
  std::vector<double> mean, low, high;

  std::size_t size() const { return step.size(); }
  void add(double steps, double at_seconds, double at_bytes, double value);
};

// At each step, the mean of `column` and of the seconds over the ranks that made it, and the bytes that all ranks have
// sent so far.
Curve curve_of_steps(std::span<const StepFigures> rows, double StepFigures::*column);
// The values of `metric` in the rows of `split`.
Curve curve_of_evaluations(std::span<const EvaluationRow> rows, std::string_view metric, Split split);

// The mean over runs, at the steps that all of them have.
Curve mean_of(std::span<const Curve> curves);

// The largest number of buckets, from `least` to `most`, with which curves of these sizes, when downsampled(), have
// about `budget` points together.
std::size_t buckets_for(std::span<const std::size_t> sizes, std::size_t budget, std::size_t least, std::size_t most);
// The first and the last point and, from each of `buckets` equal runs of points, the points with the lowest and the
// highest value, so that no extreme is lost: at most 2 * buckets + 2 points, and one more for each bucket with a gap.
Curve downsampled(const Curve& curve, std::size_t buckets);

}  // namespace sotto
