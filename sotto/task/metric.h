#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"

namespace sotto {

// One thing that a task measures of its model: a constant of the task.
struct Metric {
  std::string_view name;     // in targets, evaluations.csv and summary.json
  std::string_view label;    // in lines for people
  std::string_view summary;  // one line for help
  bool rises = true;         // larger values are better
  bool is_share = false;     // lies in [0, 1]; lines for people show a percentage

  bool better(double value, double than) const { return rises ? value > than : value < than; }
  // Whether a run whose value this is has come as far as `target`, or further. A NaN has not.
  bool reaches(double value, double target) const { return value == target || better(value, target); }
  std::string text(double value) const;       // "97.12" of a share, otherwise "0.1234"
  std::string with_unit(double value) const;  // "97.12 %"
};

// What was measured: a value for each metric of a task, in the task's order.
struct Metrics {
  std::span<const Metric> kinds;
  std::vector<double> values;

  double value(std::string_view name) const;  // REQUIRES a metric of this task
  bool finite() const;                        // all values are
  std::string text() const;                   // "loss 0.1234  Prec@1 97.12"
};

// Those of a task by name.
inline Table<Metric> metric_table(std::span<const Metric> kinds) { return {"metric", kinds}; }

// A metric, and the value at which a run has reached its goal.
struct Target {
  Metric metric;
  double value = 0;

  bool reached_by(const Metrics& measured) const { return metric.reaches(measured.value(metric.name), value); }
  std::string text() const;  // "accuracy=0.97"
};

// From "accuracy=0.97"; nothing from "". ConfigError: an unknown metric, or a value that it cannot have, such as an
// accuracy above 1.
std::optional<Target> read_target(std::string_view option, std::string_view text, std::span<const Metric> kinds);

}  // namespace sotto
