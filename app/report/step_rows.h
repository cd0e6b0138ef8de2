#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "app/train/record/recorder.h"

namespace sotto {

// A row of steps.csv, and which ranks made the step.
struct StepFigures : StepRow {
  std::uint64_t group = 0;  // the first step of the group of ranks that made it: a key of StepRows::groups
};

struct StepRows {
  // In the order of the file, without a last line that a crash cut off; the steps of each rank ascend.
  std::vector<StepFigures> rows;
  // How many ranks the group has that made the steps from this one on. A group begins with each start of the run, and
  // when ranks come or go. If membership.csv does not say so, there is one group without a limit.
  std::map<std::uint64_t, std::uint64_t> groups;
  // Ranks that came to such a group from outside. They may take part in its steps before they train, without rows.
  std::map<std::uint64_t, std::set<std::uint64_t>> newcomers;
};

// Reads steps.csv, and membership.csv next to it. FileError names file, line and column: there are other columns, a
// cell is no number, a row is too short, or a rank makes a step again.
StepRows read_step_rows(const std::filesystem::path& path);

}  // namespace sotto
