#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {

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
  Number number{};
  const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (status == std::errc() && end == cell.data() + cell.size()) return number;
  throw FileError(fmt::format("`{}` is no number of the column {}", cell.substr(0, 40), column));
}

}  // namespace sotto
