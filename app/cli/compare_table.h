#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/report/run_summary.h"
#include "app/report/text_table.h"

namespace sotto {

// One run of a contender.
struct ComparedRun {
  std::int64_t seed = 1;
  std::string name, folder, error{};
  bool interrupted = false, diverged = false;
  std::optional<RunSummary> summary{};
};

// An algorithm with a codec, and its runs, one for each seed. A row of the table.
struct ComparedRow {
  std::string algorithm, codec;
  std::vector<ComparedRun> runs{};

  std::vector<RunSummary> ended() const;  // the summaries of the runs that came to their end
};

// A line for each row, with means and deviations over the seeds. `goal` is the metric of their task, and `until` the
// target. Leaves out columns that are empty, or the same for all runs.
TextTable to_table(std::span<const ComparedRow> rows, std::string_view goal, const std::optional<std::string>& until);
// The summaries of all runs.
std::string to_json(std::span<const ComparedRow> rows);

}  // namespace sotto
