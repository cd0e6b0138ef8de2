#include "app/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sotto/comm/group/store.h"

namespace sotto {
namespace {

// The number of characters. In UTF-8 each has one byte that is no continuation.
std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) : left_(headings.size(), false) {
  rows_.push_back(std::move(headings));
  left_.front() = true;
}

void TextTable::add(std::vector<std::string> row) {
  row.resize(left_.size());
  for (std::string& cell : row) cell = visible(cell);  // names and files of folders may hold control characters
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths(left_.size(), 3);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], length_of(row[c]));
  }
  return widths;
}

std::string TextTable::plain() const {
  const auto width = widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string room(width[c] - length_of(row[c]), ' ');
      line += left_[c] ? row[c] + room : room + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string TextTable::markdown() const {
  const auto escaped = [](const std::string& cell) {  // an unescaped bar would end the cell
    std::string text;
    for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
    return text;
  };
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    text += "|";
    for (const std::string& cell : rows_[r]) text += fmt::format(" {} |", escaped(cell));
    text += "\n";
    if (r > 0) continue;
    text += "|";
    for (const bool left : left_) text += left ? " --- |" : " ---: |";
    text += "\n";
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, units[unit]);
}

}  // namespace sotto
