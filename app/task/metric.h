#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"

namespace sotto {

// A value for people: four decimals, or four digits if four decimals would show only zeros or too many digits.
std::string value_text(double value);

// A quantity that a task measures of its model. Metrics are constants of the task.
struct Metric {
  std::string_view name;     // in targets, evaluations.csv and summary.json
  std::string_view label;    // in lines for people
  std::string_view summary;  // one line for help
  bool rises = true;         // larger values are better
  bool is_share = false;     // lies in [0, 1]; lines for people show a percentage

  bool better(double value, double than) const { return rises ? value > than : value < than; }
  // Whether `value` is as good as `target` or better. NaN is not.
  bool reaches(double value, double target) const { return value == target || better(value, target); }
  std::string text(double value) const;       // a share as "97.12", other values as "0.1234"
  std::string with_unit(double value) const;  // "97.12 %"
};

constexpr Metric falling_metric(std::string_view name, std::string_view label, std::string_view summary) {
  return {name, label, summary, false};
}
constexpr Metric rising_metric(std::string_view name, std::string_view label, std::string_view summary) {
  return {name, label, summary};
}
constexpr Metric share_metric(std::string_view name, std::string_view label, std::string_view summary) {
  return {name, label, summary, true, true};
}

// Measured values, one for each metric of a task, in the task's order.
struct Metrics {
  std::span<const Metric> kinds;
  std::vector<double> values;

  double value(std::string_view name) const;  // REQUIRES the name of a metric of this task
  bool finite() const;                        // whether all values are
  std::string text() const;                   // "loss 0.1234  accuracy 97.12"
};

// The metrics of a task by name. `kinds` must outlive the table.
inline Table<Metric> metric_table(std::span<const Metric> kinds) { return {"metric", kinds}; }

// A run has reached its goal when the metric is at this value or better.
struct Target {
  Metric metric;
  double value = 0;

  bool reached_by(const Metrics& measured) const { return metric.reaches(measured.value(metric.name), value); }
  std::string text() const;  // "accuracy=0.97"
};

// Parses "accuracy=0.97". ConfigError for an unknown metric or an impossible value, such as an
// accuracy above 1.
Target read_target(std::string_view option, std::string_view text, std::span<const Metric> kinds);

// The sum of squared distances of `count` numbers from their mean, from their sum and the sum of their squares.
double squares_around_mean(double count, double sum, double squares);
// R2: 1 - (sum of squared errors) / (sum of squared distances of the labels from their mean). If all labels are the
// same, they have no variance: 1 without an error, else 0, as in scikit-learn.
double r2_of(double errors, double count, double sum, double squares);

}  // namespace sotto
