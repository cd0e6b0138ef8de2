#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace sotto {

// The number that is the whole text; nothing if it is another text, or does not fit.
template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The text without spaces at its ends.
inline std::string_view trimmed(std::string_view text, std::string_view spaces = " \t\r\n") {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

}  // namespace sotto
