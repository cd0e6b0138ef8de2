#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

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

}  // namespace sotto
