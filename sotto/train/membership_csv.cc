#include "sotto/train/membership_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/train/checkpoint.h"

namespace sotto {
namespace {

constexpr std::string_view membership_head = "generation,step,ranks,members,new,threads,from,epoch";
constexpr std::size_t membership_columns = 8;
constexpr int most_id = 65535;
constexpr std::string_view from_start = "start", from_generation = "generation ";

std::filesystem::path membership_file(const std::filesystem::path& train_dir) { return train_dir / "membership.csv"; }

// Where a row began: "start", "model_step_40" or "generation 3".
std::string origin_text(const GenerationRow& row) {
  if (!row.starts) return fmt::format("{}{}", from_generation, row.continues);
  return row.step == 0 ? std::string(from_start) : checkpoint::folder("", row.step).string();
}

std::vector<int> numbers_in(std::string_view cell, std::string_view column, int least, int most) {
  std::istringstream words{std::string(cell)};
  std::vector<int> numbers;
  for (std::string word; words >> word;) {
    numbers.push_back(number_in<int>(word, column));
    if (numbers.back() < least || numbers.back() > most) {
      throw FileError(fmt::format("{} in the column {} is not in [{}, {}]", word, column, least, most));
    }
  }
  return numbers;
}

bool ascend(const std::vector<int>& ids) {
  return std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end();
}

GenerationRow generation_in(std::string_view line) {
  std::vector<std::string_view> cells;
  split_cells(line, cells);
  if (cells.size() != membership_columns) throw FileError(fmt::format("it has {} columns", cells.size()));
  GenerationRow row;
  row.generation = number_in<std::uint64_t>(cells[0], "generation");
  row.step = number_in<std::uint64_t>(cells[1], "step");
  row.ids = numbers_in(cells[3], "members", 0, most_id);
  row.newcomers = numbers_in(cells[4], "new", 0, most_id);
  row.threads = numbers_in(cells[5], "threads", 1, most_id);
  row.epoch = number_in<double>(cells[7], "epoch");
  if (row.ids.empty() || !ascend(row.ids)) throw FileError("the ids of its members do not ascend");
  for (const std::size_t count : {number_in<std::size_t>(cells[2], "ranks"), row.threads.size()}) {
    if (count != row.ids.size()) throw FileError(fmt::format("it has {} members, and not {}", row.ids.size(), count));
  }
  if (!ascend(row.newcomers) || !std::ranges::includes(row.ids, row.newcomers)) {
    throw FileError("some rank is new, but no member");
  }
  row.starts = !cells[6].starts_with(from_generation);
  if (!row.starts) {
    row.continues = number_in<std::uint64_t>(cells[6].substr(from_generation.size()), "from");
  }
  if (cells[6] != origin_text(row)) {
    throw FileError(fmt::format("`{}` is nothing from which step {} could begin", cells[6].substr(0, 40), row.step));
  }
  return row;
}

// Refuses what could not have followed the generation `before`.
void require_follows(const GenerationRow& row, const GenerationRow& before) {
  if (row.step < before.step) {
    throw FileError(fmt::format("step {} is before step {}, with which generation {} began", row.step, before.step,
                                before.generation));
  }
  if (row.newcomers == row.ids) throw FileError("all its members are new, and nobody had the state to go on from");
  for (const int id : row.ids) {
    if (std::ranges::binary_search(row.newcomers, id) || std::ranges::binary_search(before.ids, id)) continue;
    throw FileError(fmt::format("rank {} was no member of generation {}, and is not new", id, before.generation));
  }
}

// The place in `rows`, in which each is a start or goes on from an earlier one, of what the last row goes on from.
std::size_t place_before(const std::vector<GenerationRow>& rows) {
  const GenerationRow& row = rows.back();
  for (std::size_t at = rows.size() - 1; at-- > 0;) {
    if (rows[at].generation == row.continues) return at;
    if (rows[at].starts) break;
  }
  throw FileError(fmt::format("there is no generation {} before it", row.continues));
}

}  // namespace

void append_generation(const std::filesystem::path& train_dir, const GenerationRow& row) {
  const auto path = membership_file(train_dir);
  const std::string text = path_exists(path) ? read_text(path) : "";
  const std::size_t whole = text.rfind('\n') + 1;  // a crash can cut the last line off
  if (whole < text.size()) std::filesystem::resize_file(path, whole);
  append_text(path, (whole == 0 ? fmt::format("{}\n", membership_head) : "") +
                        fmt::format("{},{},{},{},{},{},{},{:.4f}\n", row.generation, row.step, row.ids.size(),
                                    fmt::join(row.ids, " "), fmt::join(row.newcomers, " "), fmt::join(row.threads, " "),
                                    origin_text(row), row.epoch));
}

std::vector<GenerationRow> read_generations(const std::filesystem::path& train_dir) {
  const auto path = membership_file(train_dir);
  std::vector<GenerationRow> rows;
  std::vector<std::size_t> before;  // for each row, the place of what it goes on from; its own if it is a start
  for_whole_lines(path, read_text(path), [&](std::string_view line, std::size_t number) {
    if (number == 1 && line != membership_head) {
      throw FileError(fmt::format("its columns are not `{}`: another version of sotto wrote it", membership_head));
    }
    if (number == 1) return;
    rows.push_back(generation_in(line));
    rows.back().line = number;
    before.push_back(rows.back().starts ? rows.size() - 1 : place_before(rows));
    if (!rows.back().starts) require_follows(rows.back(), rows[before.back()]);
  });
  if (rows.empty()) throw FileError(fmt::format("{}: it has no rows: no rank has begun a step", path.string()));
  std::vector<GenerationRow> chain;
  for (std::size_t at = rows.size() - 1;; at = before[at]) {
    chain.push_back(rows[at]);
    if (rows[at].starts) break;
  }
  std::ranges::reverse(chain);
  return chain;
}

}  // namespace sotto
