#include "app/train/record/membership_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/train/folder/checkpoint.h"
#include "sotto/comm/world.h"
#include "sotto/core/csv_table.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr int most_id = World::most_ids - 1, most_threads = 65535;
constexpr std::string_view from_start = "start", from_generation = "generation ";

std::filesystem::path membership_file(const std::filesystem::path& train_dir) { return train_dir / "membership.csv"; }

// Where a row began: "start", "model_step_40" or "generation 3".
std::string origin_text(const GenerationRow& row) {
  if (!row.starts) return fmt::format("{}{}", from_generation, row.continues);
  return row.step == 0 ? std::string(from_start) : checkpoint::folder("", row.step).string();
}

// A row as it stands in the file.
struct GenerationLine : GenerationRow {
  std::uint64_t ranks = 0;
  std::string from;
};

// A column of numbers with spaces between them, each in [least, most].
CsvColumn<GenerationLine> numbers_column(std::string_view name, std::vector<int> GenerationRow::*member, int least,
                                         int most) {
  const auto write = [member](const GenerationLine& row, std::string& text) {
    fmt::format_to(std::back_inserter(text), "{}", fmt::join(row.*member, " "));
  };
  const auto read = [=](std::string_view cell, GenerationLine& row) {
    std::istringstream words{std::string(cell)};
    for (std::string word; words >> word;) {
      const int number = (row.*member).emplace_back(number_in<int>(word, name));
      if (number >= least && number <= most) continue;
      throw FileError(fmt::format("{} in the column {} is not in [{}, {}]", word, name, least, most));
    }
  };
  return {std::string(name), write, read};
}

CsvTable<GenerationLine> membership_table() {
  return CsvTable<GenerationLine>({{"generation", &GenerationLine::generation},
                                   {"step", &GenerationLine::step},
                                   {"ranks", &GenerationLine::ranks},
                                   numbers_column("members", &GenerationLine::ids, 0, most_id),
                                   numbers_column("new", &GenerationLine::newcomers, 0, most_id),
                                   numbers_column("threads", &GenerationLine::threads, 1, most_threads),
                                   {"from", &GenerationLine::from},
                                   {"epoch", &GenerationLine::epoch, "{:.4f}"}});
}

bool ascend(const std::vector<int>& ids) {
  return std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end();
}

GenerationRow generation_of(const GenerationLine& line) {
  GenerationRow row = line;
  if (row.ids.empty() || !ascend(row.ids)) throw FileError("the ids of its members do not ascend");
  for (const std::size_t count : {line.ranks, row.threads.size()}) {
    if (count != row.ids.size()) throw FileError(fmt::format("it has {} members, and not {}", row.ids.size(), count));
  }
  if (!ascend(row.newcomers) || !std::ranges::includes(row.ids, row.newcomers)) {
    throw FileError("some rank is new, but no member");
  }
  row.starts = !line.from.starts_with(from_generation);
  if (!row.starts) {
    row.continues = number_in<std::uint64_t>(line.from.substr(from_generation.size()), "from");
  }
  if (line.from != origin_text(row)) {
    throw FileError(fmt::format("`{}` is nothing from which step {} could begin", line.from.substr(0, 40), row.step));
  }
  return row;
}

// Refuses a row that could not have followed the generation `before`.
void require_follows(const GenerationRow& row, const GenerationRow& before) {
  if (row.step < before.step) {
    throw FileError(fmt::format("step {} is before step {}, with which generation {} began", row.step, before.step,
                                before.generation));
  }
  if (row.newcomers == row.ids) throw FileError("all its members are new, and nobody had the state to continue from");
  for (const int id : row.ids) {
    if (std::ranges::binary_search(row.newcomers, id) || std::ranges::binary_search(before.ids, id)) continue;
    throw FileError(fmt::format("rank {} was no member of generation {}, and is not new", id, before.generation));
  }
}

// The index in `rows` of the generation from which the last row continues. REQUIRES that the last row is no start.
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
  const CsvTable<GenerationLine> table = membership_table();
  const std::string line = table.line({row, row.ids.size(), origin_text(row)});
  if (whole == 0) return write_file_atomic(path, table.header() + line);  // so readers never find an empty file
  if (whole < text.size()) std::filesystem::resize_file(path, whole);
  append_text(path, line);
}

std::vector<GenerationRow> read_membership(const std::filesystem::path& train_dir) {
  std::vector<GenerationRow> rows;
  const CsvTable<GenerationLine> table = membership_table();
  table.read_file(membership_file(train_dir), [&](std::string_view line, std::size_t number) {
    rows.push_back(generation_of(table.row_of(line)));
    rows.back().line = number;
    if (!rows.back().starts) require_follows(rows.back(), rows[place_before(rows)]);
  });
  return rows;
}

std::vector<GenerationRow> read_generations(const std::filesystem::path& train_dir) {
  std::vector<GenerationRow> rows = read_membership(train_dir);
  if (rows.empty()) {
    throw FileError(fmt::format("{}: it has no rows: no rank has begun a step", membership_file(train_dir).string()));
  }
  std::vector<GenerationRow> chain{rows.back()};
  while (!chain.back().starts) {
    const std::size_t before = place_before(rows);
    chain.push_back(rows[before]);
    rows.resize(before + 1);
  }
  std::ranges::reverse(chain);
  return chain;
}

}  // namespace sotto
