#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/report/step_rows.h"
#include "sotto/train/evaluations.h"

namespace sotto {

// A value over the course of a run, or its mean over several runs with the lowest and the highest of them. The vectors
// have the same length. Values that are not finite are gaps.
struct Curve {
  std::vector<double> step;     // steps made
  std::vector<double> seconds;  // of training until then
  std::vector<double> bytes;    // sent by all ranks until then
  std::vector<double> mean, low, high;

  std::size_t size() const { return step.size(); }
  void add(double steps, double at_seconds, double at_bytes, double value);
};

// The mean over the ranks that made a step; `column` is what is drawn. Seconds are means over those ranks, bytes the
// sum over all.
Curve curve_of_steps(std::span<const StepFigures> rows, double StepFigures::*column);
// Metric number `metric` of the rows of this split.
Curve curve_of_evaluations(std::span<const EvaluationRow> rows, std::size_t metric, Split split);

// The mean over runs, at those steps that all of them have.
Curve mean_of(std::span<const Curve> curves);

// The most that a curve of this many points can be cut to so that all have `budget` points together, but at least
// `least` buckets, and `most` at most.
std::size_t buckets_for(std::span<const std::size_t> sizes, std::size_t budget, std::size_t least, std::size_t most);
// At most 2 * buckets + 2 points, and one more for each bucket with a gap: the first, the last, and of each of so many
// equal runs of points the one with the lowest and the one with the highest value. So no extreme is lost.
Curve downsampled(const Curve& curve, std::size_t buckets);

}  // namespace sotto
