#include "app/data/text/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

TextLines::TextLines(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (rest_.starts_with(mark)) rest_.remove_prefix(mark.size());
}

bool TextLines::next(std::string_view& line) {
  if (rest_.empty()) return false;
  ++number_;
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  line = rest_.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return true;
}

bool TextLines::has_text() const { return rest_.find_first_not_of(" \t\r\n") != std::string_view::npos; }

std::string TextLines::place() const { return fmt::format("{}:{}", file_, number_); }

void TextLines::fail(const std::string& why) const { throw FileError(fmt::format("{}: {}", place(), why)); }

float TextLines::number(std::string_view text, std::string_view what) const {
  float value = 0;
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool range = error == std::errc::result_out_of_range;  // too large for a float, or too small
  if (digits.empty() || (error != std::errc() && !range) || end != digits.data() + digits.size()) {
    fail(fmt::format("{} `{}` is not a number", what, text.substr(0, 40)));
  }
  if (range && std::abs(std::strtod(std::string(digits).c_str(), nullptr)) < 1) return 0;  // it is too small
  if (range || !std::isfinite(value)) fail(fmt::format("{} `{}` is not a finite float", what, text.substr(0, 40)));
  return value;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned first = byte(i);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0U) != 0x80) return false;
    }
    if (length > 2) {
      const unsigned second = byte(i + 1);
      if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
          (first == 0xF4 && second > 0x8F)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

}  // namespace sotto
