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

// The settings without those that only say where a run writes and how it starts.
Settings settings_of(Settings options);

// An option in which runs differ, and its value in each run; empty for a run that does not have it.
struct Difference {
  std::string name;
  std::vector<std::string> values;
};
std::vector<Difference> differences(std::span<const Settings> runs);

// Runs that differ in nothing but their seed.
struct RunGroup {
  std::string name;  // the options in which the group differs from others
  std::vector<std::size_t> runs;

  std::string title() const;  // "ef | topk(0.01) (3 runs)"
};
// `folders` are the names of the runs. If there is only one group, it has the name of its first folder.
std::vector<RunGroup> group_by_seed(std::span<const Settings> runs, std::span<const std::string> folders);

// A figure of several runs that differ in nothing but their seed.
struct Spread {
  double mean = 0;
  double deviation = 0;  // of a single run: sqrt(sum of squared distances / (count - 1)); 0 if there is one value
  std::size_t count = 0;

  // "97.12 % ± 0.31 %", where `one` writes each number; a deviation that shows as 0 is left out.
  std::string text(const std::function<std::string(double)>& one) const;
};

// REQUIRES a value.
Spread spread_of(std::span<const double> values);
// The spread of a figure over the runs that have it; nothing if none has it.
template <class Runs, class Figure>
std::optional<Spread> spread_over(const Runs& runs, Figure&& figure) {
  std::vector<double> values;
  for (const auto& run : runs) {
    if (const std::optional<double> value = std::invoke(figure, run)) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(spread_of(values));
}

// For each figure, whether seeds alone may explain its distance from the best one: the distance of the means is at most
// the root of the sum of both squared deviations. True for the best one. A figure of a single run counts with the
// largest deviation of all figures. False for a mean that is not finite.
std::vector<bool> near_best(std::span<const Spread> figures, bool rises);

// Where the records of two runs of the same training first differ, from step `first` on and before step `end`: in a
// loss of steps.csv, or in a metric of evaluations.csv. Rows that only `replay` has do not count, since a rank that was
// killed lost its last rows; nor do evaluations that only `run` has. Empty: nowhere. FileError.
std::string first_difference(const std::filesystem::path& run, const std::filesystem::path& replay, std::uint64_t first,
                             std::uint64_t end, std::span<const Metric> metrics);

}  // namespace sotto
