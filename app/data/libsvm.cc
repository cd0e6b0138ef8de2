#include "app/data/libsvm.h"

#include <fmt/format.h>

#include <charconv>

#include "app/data/text_lines.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

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

std::unique_ptr<Rows> open_libsvm(const DataOptions& options, Split split) {
  return open_row_files(options, split, "libsvm", read_libsvm);
}

}  // namespace sotto
