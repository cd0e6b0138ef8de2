#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {

// The lines of a table, without their ends. A last one that has no end is left out: a crash can cut it off.
inline std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    lines.push_back(text.substr(0, end));
  }
  return lines;
}

// Calls each(line, number) for those of a file that was read, from number 1 on. FileErrors of `each` get the place in
// front, and the advice behind.
template <class Each>
void for_whole_lines(const std::filesystem::path& path, std::string_view text, Each&& each,
                     std::string_view advice = "") {
  std::size_t number = 0;
  for (const std::string_view line : whole_lines(text)) {
    ++number;
    try {
      each(line, number);
    } catch (const FileError& error) {
      throw FileError(fmt::format("{}:{}: {}{}", path.string(), number, error.what(), advice));
    }
  }
}

// Sets `cells` to those of a line of a table, none of which has a comma or quotes. They point into the line.
inline void split_cells(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

// The number that is the whole cell. FileError, with the name of the column, if there is another text.
template <class Number>
Number number_in(std::string_view cell, std::string_view column) {
  if (const auto number = parsed<Number>(cell)) return *number;
  throw FileError(fmt::format("`{}` is no number of the column {}", cell.substr(0, 40), column));
}

}  // namespace sotto
