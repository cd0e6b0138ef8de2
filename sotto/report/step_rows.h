#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

namespace sotto {

// A row of steps.csv: one step of one rank. Times are milliseconds.
struct StepFigures {
  std::uint64_t step = 0, rank = 0;
  double epoch = 0, loss = 0, lr = 0;
  double step_ms = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0, wait_ms = 0, data_ms = 0;
  std::uint64_t bytes_sent = 0;
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

// Reads steps.csv by the names of its columns, and membership.csv beside it. FileError names file, line and column: one
// is missing, a cell is no number, a row is too short, or a rank makes a step again.
StepRows read_step_rows(const std::filesystem::path& path);

}  // namespace sotto
