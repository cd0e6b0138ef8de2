#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto {

// A row of steps.csv: one step of one rank. Times are milliseconds.
struct StepFigures {
  std::uint64_t step = 0, rank = 0;
  double epoch = 0, loss = 0, lr = 0;
  double step_ms = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0, wait_ms = 0, data_ms = 0;
  std::uint64_t bytes_sent = 0;
};

struct StepRows {
  std::vector<StepFigures> rows;  // in the order of the file; the steps of each rank ascend
  bool cut = false;               // the last line is not complete, and was left out: a crash can cut one off
};

// Reads steps.csv by the names of its columns. FileError names file, line and column: one is missing, a cell is no
// number, a row is too short, or a rank makes a step again.
StepRows read_step_rows(const std::filesystem::path& path);

}  // namespace sotto
