#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "app/data/rows/rows.h"
#include "app/data/text/text_lines.h"
#include "sotto/core/csv_table.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

bool is_number(std::string_view cell) {
  double value = 0;
  if (cell.starts_with('+')) cell.remove_prefix(1);
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error != std::errc::invalid_argument && end == cell.data() + cell.size();  // 1stFlrSF is a name
}

// Some programs quote all cells.
std::string_view unquoted(std::string_view cell) {
  const bool quoted = cell.size() >= 2 && cell.starts_with('"') && cell.ends_with('"');
  return quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
}

std::string name_of(std::string_view cell) {
  std::string name(cell);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

constexpr std::array usual_names{"label", "target", "class", "y"};

// The column of the label, by the names that it usually has.
std::optional<std::size_t> label_column(const std::vector<std::string_view>& names) {
  for (const std::string_view usual : usual_names) {
    const auto found = std::ranges::find(names, usual, name_of);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  return std::nullopt;
}

// Other columns with a usual name of labels. If such a column repeats the label, a model learns nothing but to copy it.
std::string other_labels(const std::vector<std::string_view>& names, std::size_t label) {
  std::vector<std::string> others;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == label || std::ranges::count(usual_names, name_of(names[i])) == 0) continue;
    others.push_back(fmt::format("`{}`", names[i]));
  }
  if (others.empty()) return "";
  return fmt::format("{} {}", fmt::join(others, " and "), others.size() == 1 ? "is a feature" : "are features");
}

// FileError for a first line of column numbers, as pandas writes it for columns without names: they would be read as an
// example.
void refuse_column_numbers(std::span<const std::string_view> cells, const TextLines& lines) {
  constexpr std::size_t least = 4;  // fewer may well be values
  std::size_t next = 0;
  const auto follows = [&](std::string_view cell) { return cell == std::to_string(next++); };
  if (cells.size() < least || !std::ranges::all_of(cells, follows)) return;
  lines.fail(
      fmt::format("these numbers from 0 to {} count the columns, and are no example; leave the line out (pandas: "
                  "header=False), or name the columns",
                  cells.size() - 1));
}

// FileError for a column without a name (pandas writes its row numbers so, which are no feature), or for a name that
// occurs twice.
void check_names(std::span<const std::string_view> cells, const TextLines& lines) {
  std::vector<std::string> names;
  for (const std::string_view cell : cells) {
    const std::string& name = names.emplace_back(name_of(cell));
    if (name.empty()) {
      lines.fail(
          fmt::format("column {} has no name; give it one, or leave it out if it numbers the rows", names.size()));
    }
    if (std::ranges::count(names, name) > 1) lines.fail(fmt::format("two columns have the name `{}`", cell));
  }
}

void read_csv(std::string_view text, const std::string& file, Rows& rows) {
  TextLines lines(text, file);
  std::vector<std::string_view> cells;
  std::size_t columns = 0, label = 0;
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty()) {
      if (!lines.has_text()) break;
      lines.fail("an empty line");
    }
    split_cells(line, cells);
    for (std::string_view& cell : cells) cell = unquoted(trimmed(cell));
    if (columns == 0) {
      columns = cells.size();
      if (columns < 2) lines.fail("a label and one feature at least are wanted, with commas between them");
      const auto named = label_column(cells);
      const bool names = named || std::ranges::none_of(cells, is_number);
      label = named.value_or(0);
      rows.features = columns - 1;
      rows.label_at = named ? fmt::format("the column `{}`", cells[label])
                            : fmt::format("the first column, since none is called {}", fmt::join(usual_names, ", "));
      if (names) check_names(cells, lines);
      if (!names) refuse_column_numbers(cells, lines);
      if (const std::string others = named ? other_labels(cells, label) : ""; !others.empty()) {
        rows.remark = fmt::format("{}: the column `{}` is the label, and {}; leave out what repeats the label", file,
                                  cells[label], others);
      }
      if (names && !named) {
        rows.remark = fmt::format("{}: the first column, `{}`, is the label, since none is called {}", file, cells[0],
                                  fmt::join(usual_names, ", "));
      }
      for (std::size_t i = 0; i < columns; ++i) {
        rows.layout +=
            fmt::format("{}{}{}", i > 0 ? "," : "", names ? name_of(cells[i]) : "", i == label ? " (label)" : "");
      }
      if (names) continue;
    }
    if (cells.size() != columns) {
      lines.fail(fmt::format("{} cells, in the first line {}", cells.size(), columns));
    }
    for (std::size_t i = 0; i < columns; ++i) {
      const float value = lines.number(cells[i], fmt::format("cell {}", i + 1));
      if (i == label || value == 0) continue;
      rows.columns.push_back(static_cast<std::uint32_t>(i - (i > label ? 1 : 0)));
      rows.values.push_back(value);
    }
    rows.end_row(lines.number(cells[label], "label"), lines);
  }
}

// Removes the first word from `line` and returns it.
std::string_view take_word(std::string_view& line) {
  line = trimmed(line);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

std::uint32_t column_of(std::string_view text, const TextLines& lines) {
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc::invalid_argument || end != text.data() + text.size() ||
      (error == std::errc() && index == 0)) {
    lines.fail(fmt::format("index `{}` is not a whole number from 1 on", text.substr(0, 40)));
  }
  if (error != std::errc() || index > Rows::most_features) {
    lines.fail(fmt::format("index {} is above {}", text.substr(0, 40), Rows::most_features));
  }
  return static_cast<std::uint32_t>(index - 1);
}

void read_libsvm(std::string_view text, const std::string& file, Rows& rows) {
  TextLines lines(text, file);
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty() && lines.has_text()) lines.fail("an empty line");
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;  // a comment, or an empty line at the end
    const float label = lines.number(take_word(line), "label");
    const std::size_t begin = rows.columns.size();
    for (std::string_view pair = take_word(line); !pair.empty(); pair = take_word(line)) {
      const std::size_t colon = pair.find(':');
      if (colon == std::string_view::npos) {
        lines.fail(fmt::format("`{}` is not index:value", pair.substr(0, 40)));
      }
      const std::uint32_t column = column_of(pair.substr(0, colon), lines);
      if (rows.columns.size() > begin && column <= rows.columns.back()) {
        lines.fail(fmt::format("index {} follows {}; indices must ascend", column + 1, rows.columns.back() + 1));
      }
      rows.columns.push_back(column);
      rows.values.push_back(lines.number(pair.substr(colon + 1), "value"));
    }
    rows.end_row(label, lines);
  }
}

}  // namespace

std::unique_ptr<Rows> open_csv(const DataOptions& options, Split split) {
  return open_row_files(options, split, "csv", read_csv);
}

std::unique_ptr<Rows> open_libsvm(const DataOptions& options, Split split) {
  return open_row_files(options, split, "libsvm", read_libsvm);
}

}  // namespace sotto
