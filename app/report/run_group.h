#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/task/metric.h"

namespace sotto {

struct Setting {
  std::string name, value;
  bool operator==(const Setting&) const = default;
};
// The options of a run as text.
using Settings = std::vector<Setting>;

// Without those that only say where a run writes and how it starts.
Settings settings_of(Settings options);

// An option in which runs differ, and its value in each of them; empty in a run that does not have it.
struct Difference {
  std::string name;
  std::vector<std::string> values;
};
std::vector<Difference> differences(std::span<const Settings> runs);

// Runs that differ in nothing but their seed.
struct RunGroup {
  std::string name;  // the options in which it differs from the other groups
  std::vector<std::size_t> runs;

  std::string title() const;  // "ef | topk(0.01) (3 runs)"
};
// `folders` are the names of the runs: a group is called by the first of its folders if there is only one group.
std::vector<RunGroup> group_by_seed(std::span<const Settings> runs, std::span<const std::string> folders);

// A figure of several runs that differ in nothing but their seed.
struct Spread {
  double mean = 0;
  double deviation = 0;  // of a single run: the root of the sum of squares / (count - 1); 0 if there is one value
  std::size_t count = 0;

  // "97.12 % ± 0.31 %", each number in the text that `one` gives it; without a deviation that shows as 0.
  std::string text(const std::function<std::string(double)>& one) const;
};

// REQUIRES a value.
Spread spread_of(std::span<const double> values);
// The spread of a figure over those of the runs that have it; nothing if none has.
template <class Runs, class Figure>
std::optional<Spread> spread_over(const Runs& runs, Figure&& figure) {
  std::vector<double> values;
  for (const auto& run : runs) {
    if (const std::optional<double> value = std::invoke(figure, run)) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(spread_of(values));
}

// For each figure, whether seeds alone may explain its distance from the best one: the means are no further apart than
// the root of the sum of the squares of both deviations. True for the best one. A figure of one run is taken to deviate
// like the figure that deviates most. False for a mean that is not finite.
std::vector<bool> near_best(std::span<const Spread> figures, bool rises);

// Where the records of two runs of the same training first differ, from step `first` on and before step `end`: in a
// loss of steps.csv, or in a metric of evaluations.csv. A row that only `replay` has does not count, for a rank that
// was killed wrote its last rows to no file. Empty: nowhere. FileError.
std::string first_difference(const std::filesystem::path& run, const std::filesystem::path& replay, std::uint64_t first,
                             std::uint64_t end, std::span<const Metric> metrics);

}  // namespace sotto
