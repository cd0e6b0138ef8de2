#include "app/report/step_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "app/train/record/membership_csv.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// Takes up the groups of the run's present state: a later one takes the steps from its first one on again.
void read_groups(const std::filesystem::path& train_dir, StepRows& found) {
  found.groups[0] = std::numeric_limits<std::uint64_t>::max();
  if (!path_exists(train_dir / "membership.csv")) return;
  for (const GenerationRow& row : read_membership(train_dir)) {
    found.groups.erase(found.groups.lower_bound(row.step), found.groups.end());
    found.groups[row.step] = row.ids.size();
    found.newcomers.erase(found.newcomers.lower_bound(row.step), found.newcomers.end());
    for (std::size_t rank = 0; rank < row.ids.size() && !row.starts; ++rank) {
      if (std::ranges::binary_search(row.newcomers, row.ids[rank])) found.newcomers[row.step].insert(rank);
    }
  }
}

}  // namespace

StepRows read_step_rows(const std::filesystem::path& path) {
  StepRows found;
  read_groups(path.parent_path(), found);
  std::map<std::uint64_t, std::uint64_t> last_step;  // of each rank
  step_table().read_file(path, [&](std::string_view line, std::size_t /*number*/) {
    const StepRow row = step_table().row_of(line);
    const auto [last, is_first] = last_step.try_emplace(row.rank, row.step);
    if (!is_first && row.step <= last->second) {
      throw FileError(fmt::format("rank {} makes step {} after step {}", row.rank, row.step, last->second));
    }
    last->second = row.step;
    found.rows.push_back({row, std::prev(found.groups.upper_bound(row.step))->first});
  });
  return found;
}

}  // namespace sotto
