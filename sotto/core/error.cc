#include "sotto/core/error.h"

#include <fmt/format.h>

namespace sotto {
namespace {

constexpr char begin_mark = '\x02', between = '\x1f', end_mark = '\x03';

}  // namespace

bool is_mark(char c) { return c == begin_mark || c == between || c == end_mark; }

std::string plain_spelling(std::string_view option, std::string_view value) {
  std::string text(option);
  return value.empty() ? text : text + " " + std::string(value);
}

std::string named(std::string_view option) { return named(option, ""); }

std::string named(std::string_view option, std::string_view value) {
  std::string mark(1, begin_mark);
  mark += option;
  mark += between;
  for (const char c : value) mark += is_mark(c) ? '?' : c;
  mark += end_mark;
  return mark;
}

std::string spelled(std::string_view text, const Spelling& spelling) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find(begin_mark);
    const std::size_t middle = begin == text.npos ? begin : text.find(between, begin);
    const std::size_t end = middle == text.npos ? middle : text.find(end_mark, middle);
    out += text.substr(0, end == text.npos ? end : begin);
    if (end == text.npos) return out;
    out += spelling(text.substr(begin + 1, middle - begin - 1), text.substr(middle + 1, end - middle - 1));
    text.remove_prefix(end + 1);
  }
}

std::string Error::readable(const std::string& message) {
  std::string text;
  for (const char c : message) {
    const bool shown = (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) || c == '\n' || c == '\t' || is_mark(c);
    text += shown ? std::string(1, c) : fmt::format("\\x{:02x}", c);
  }
  return text;
}

}  // namespace sotto
