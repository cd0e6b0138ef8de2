#include "sotto/report/step_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

struct WholeColumn {
  std::string_view name;
  std::uint64_t StepFigures::*member;
};
constexpr std::array whole_columns{WholeColumn{"step", &StepFigures::step}, WholeColumn{"rank", &StepFigures::rank},
                                   WholeColumn{"bytes_sent", &StepFigures::bytes_sent}};
struct RealColumn {
  std::string_view name;
  double StepFigures::*member;
};
constexpr std::array real_columns{RealColumn{"epoch", &StepFigures::epoch},
                                  RealColumn{"loss", &StepFigures::loss},
                                  RealColumn{"lr", &StepFigures::lr},
                                  RealColumn{"step_ms", &StepFigures::step_ms},
                                  RealColumn{"compute_ms", &StepFigures::compute_ms},
                                  RealColumn{"encode_ms", &StepFigures::encode_ms},
                                  RealColumn{"network_ms", &StepFigures::network_ms},
                                  RealColumn{"decode_ms", &StepFigures::decode_ms},
                                  RealColumn{"wait_ms", &StepFigures::wait_ms},
                                  RealColumn{"data_ms", &StepFigures::data_ms}};

std::size_t position_of(std::string_view name, const std::vector<std::string_view>& heads) {
  const auto found = std::ranges::find(heads, name);
  if (found == heads.end()) throw FileError(fmt::format("there is no column `{}`", name));
  return static_cast<std::size_t>(found - heads.begin());
}

class StepReader {
 public:
  void read_header(std::string_view line) {
    split_cells(line, cells_);
    columns_ = cells_.size();
    for (std::size_t i = 0; i < whole_columns.size(); ++i) whole_at_[i] = position_of(whole_columns[i].name, cells_);
    for (std::size_t i = 0; i < real_columns.size(); ++i) real_at_[i] = position_of(real_columns[i].name, cells_);
  }
  StepFigures read_row(std::string_view line) {
    split_cells(line, cells_);
    if (cells_.size() != columns_) throw FileError(fmt::format("it has {} cells, not {}", cells_.size(), columns_));
    StepFigures row;
    for (std::size_t i = 0; i < whole_columns.size(); ++i) {
      row.*whole_columns[i].member = number_in<std::uint64_t>(cells_[whole_at_[i]], whole_columns[i].name);
    }
    for (std::size_t i = 0; i < real_columns.size(); ++i) {
      row.*real_columns[i].member = number_in<double>(cells_[real_at_[i]], real_columns[i].name);
    }
    const auto [last, is_first] = last_step_.try_emplace(row.rank, row.step);
    if (!is_first && row.step <= last->second) {
      throw FileError(fmt::format("rank {} makes step {} after step {}", row.rank, row.step, last->second));
    }
    last->second = row.step;
    return row;
  }

 private:
  std::size_t columns_ = 0;
  std::array<std::size_t, whole_columns.size()> whole_at_{};
  std::array<std::size_t, real_columns.size()> real_at_{};
  std::vector<std::string_view> cells_;
  std::map<std::uint64_t, std::uint64_t> last_step_;  // of each rank
};

// The places among the ids `members` of those that are in `some`, too. Both are lists with spaces.
std::set<std::uint64_t> places_of(std::string_view some, std::string_view members) {
  const std::string wanted = fmt::format(" {} ", some);
  std::set<std::uint64_t> places;
  std::istringstream ids{std::string(members)};
  std::uint64_t place = 0;
  for (std::string id; ids >> id; ++place) {
    if (wanted.find(" " + id + " ") != wanted.npos) places.insert(place);
  }
  return places;
}

// Reads the groups of the run's present state: a later one takes the steps from its first one on again. Rows that
// cannot be read are left out.
void read_groups(const std::filesystem::path& membership, StepRows& found) {
  auto& groups = found.groups;
  groups[0] = std::numeric_limits<std::uint64_t>::max();
  if (!path_exists(membership)) return;
  const std::string text = read_text(membership);
  std::vector<std::string_view> cells;
  for (const std::string_view line : whole_lines(text)) {
    split_cells(line, cells);
    try {
      const auto step = number_in<std::uint64_t>(cells.at(1), "step");
      const auto ranks = number_in<std::uint64_t>(cells.at(2), "ranks");
      groups.erase(groups.lower_bound(step), groups.end());
      groups[step] = ranks;
      found.newcomers.erase(found.newcomers.lower_bound(step), found.newcomers.end());
      if (cells.at(6).starts_with("generation")) found.newcomers[step] = places_of(cells.at(4), cells.at(3));
    } catch (const FileError&) {          // NOLINT(bugprone-empty-catch): the header, too
    } catch (const std::out_of_range&) {  // NOLINT(bugprone-empty-catch)
    }
  }
}

}  // namespace

StepRows read_step_rows(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  StepRows found;
  read_groups(path.parent_path() / "membership.csv", found);
  StepReader reader;
  std::size_t number = 0, at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    const bool cut = end == std::string::npos;
    if (cut && number > 0) break;
    const std::string_view line(text.data() + at, std::min(end, text.size()) - at);
    ++number;
    try {
      if (number == 1) {
        reader.read_header(line);
      } else {
        found.rows.push_back(reader.read_row(line));
        StepFigures& row = found.rows.back();
        row.group = std::prev(found.groups.upper_bound(row.step))->first;
      }
    } catch (const FileError& error) {
      throw FileError(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
    if (cut) break;
    at = end + 1;
  }
  if (number == 0) throw FileError(fmt::format("{}:1: it is empty: no run wrote it", path.string()));
  return found;
}

}  // namespace sotto
