#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"
#include "sotto/core/text.h"

namespace sotto {

// The lines of a table, without line ends. A last line without an end is left out: a crash may have cut it off.
inline std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    lines.push_back(text.substr(0, end));
  }
  return lines;
}

// Sets `cells` to the cells of a line, which point into the line. No cell of a table has a comma or quotes.
inline void split_cells(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

// Reads a cell that is a number and nothing else. FileError, which names the column, if the cell has another text.
template <class Number>
Number number_in(std::string_view cell, std::string_view column) {
  if (const auto number = parsed<Number>(cell)) return *number;
  throw FileError(fmt::format("`{}` is no number of the column {}", cell.substr(0, 40), column));
}

// What to do about a table that a run must read to continue.
inline constexpr std::string_view mend_advice = "; mend it, or move the file away";

// A column of a table: its name, how a row writes its cell, and how a cell is read into a row.
template <class Row>
struct CsvColumn {
  std::string name;
  std::function<void(const Row& row, std::string& text)> write;
  std::function<void(std::string_view cell, Row& row)> read;  // FileError, without the place

  CsvColumn(std::string heading, decltype(write) write_cell, decltype(read) read_cell)
      : name(std::move(heading)), write(std::move(write_cell)), read(std::move(read_cell)) {}

  // `member` is a number or text of the row: a pointer to it, or a function that returns a reference to it. `format` is
  // a format of fmt for a double. Without a format, numbers read back as the same value.
  template <class Member>
  CsvColumn(std::string heading, Member member, std::string_view format = "") : name(std::move(heading)) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Member, Row&>>;
    write = [=](const Row& row, std::string& text) {
      if constexpr (std::is_same_v<Value, double>) {
        text += format.empty() ? format_double(std::invoke(member, row))
                               : fmt::format(fmt::runtime(format), std::invoke(member, row));
      } else {
        fmt::format_to(std::back_inserter(text), "{}", std::invoke(member, row));
      }
    };
    read = [member, column = name](std::string_view cell, Row& row) {
      if constexpr (std::is_arithmetic_v<Value>) {
        std::invoke(member, row) = number_in<Value>(cell, column);
      } else {
        std::invoke(member, row) = Value(cell);
      }
    };
  }

  // The same column for rows of a class that is derived from `Part`.
  template <class Part>
  requires std::derived_from<Row, Part> &&(!std::same_as<Row, Part>)CsvColumn(const CsvColumn<Part>& column)
      : name(column.name), write(column.write), read(column.read) {}
};

// A table that a run writes. Its columns determine its first line, and how its rows are written and read.
template <class Row>
class CsvTable {
 public:
  // Rows that are read begin as `blank`.
  explicit CsvTable(std::vector<CsvColumn<Row>> columns, Row blank = {})
      : columns_(std::move(columns)), blank_(std::move(blank)) {
    for (const CsvColumn<Row>& column : columns_) header_.append(column.name).append(",");
    header_.back() = '\n';
  }

  const std::vector<CsvColumn<Row>>& columns() const { return columns_; }
  const std::string& header() const { return header_; }  // the first line, with its end
  std::string line(const Row& row) const {               // with its end
    std::string text;
    for (const CsvColumn<Row>& column : columns_) {
      column.write(row, text);
      text += ',';
    }
    text.back() = '\n';
    return text;
  }

  // A line without its end. FileError, without the place, if it lacks a cell, or has one too many or a wrong one.
  Row row_of(std::string_view line) const {
    const auto cells = static_cast<std::size_t>(std::ranges::count(line, ',')) + 1;
    if (cells != columns_.size()) throw FileError(fmt::format("it has {} cells, not {}", cells, columns_.size()));
    Row row = blank_;
    for (const CsvColumn<Row>& column : columns_) {
      const std::string_view cell = line.substr(0, line.find(','));
      column.read(cell, row);
      line.remove_prefix(std::min(cell.size() + 1, line.size()));
    }
    return row;
  }

  // Calls each(line, number) for each row of a file; numbers begin at 2. A last line without an end is left out: a
  // crash may have cut it off. FileError if the file is empty or has another header. These errors and FileErrors of
  // each() begin with the place and end with `advice`.
  template <class Each>
  void read_file(const std::filesystem::path& path, Each&& each, std::string_view advice = "") const {
    const std::string text = read_text(path);
    const std::vector<std::string_view> lines = whole_lines(text);
    const std::string_view names = trimmed(header_);
    std::size_t number = 1;
    try {
      if (text.empty()) throw FileError("it is empty: no run wrote it");
      if (text.substr(0, text.find('\n')) != names) {
        throw FileError(fmt::format("its columns are not `{}`: it is damaged, or of another version of sotto", names));
      }
      while (number++ < lines.size()) each(lines[number - 1], number);
    } catch (const FileError& error) {
      throw FileError(fmt::format("{}:{}: {}{}", path.string(), number, error.what(), advice));
    }
  }
  // All rows of a file; none if there is no such file. FileError as above.
  std::vector<Row> read_rows(const std::filesystem::path& path, std::string_view advice = "") const {
    std::vector<Row> rows;
    const auto each = [&](std::string_view line, std::size_t /*number*/) { rows.push_back(row_of(line)); };
    if (path_exists(path)) read_file(path, each, advice);
    return rows;
  }
  // Begins a file: writes the header and, if the run continues it, the lines of its rows that keep(row) chooses.
  // Returns these lines.
  template <class Keep>
  std::string begin_file(const std::filesystem::path& path, bool continues, Keep&& keep) const {
    std::string kept;
    const auto each = [&](std::string_view line, std::size_t /*number*/) {
      if (keep(row_of(line))) kept.append(line).append("\n");
    };
    if (continues && path_exists(path)) read_file(path, each, mend_advice);
    write_file_atomic(path, header_ + kept);
    return kept;
  }

 private:
  std::vector<CsvColumn<Row>> columns_;
  Row blank_;
  std::string header_;
};

}  // namespace sotto
