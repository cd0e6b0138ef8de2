#pragma once

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace sotto {

// Reads a text that is a number and nothing else. Returns nothing for another text, or if the number does not fit its
// type.
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

// The bytes as text, two hexadecimal digits each.
std::string hex_text(std::span<const std::byte> bytes);
// Reads such a text into `bytes`. False unless the text is two digits for each of them.
bool read_hex(std::string_view text, std::span<std::byte> bytes);

// Flushes the stream, then writes all of the text at once. Returns 0 or an errno, for example when the disk is full, or
// the pipe has no reader (only if SIGPIPE is ignored). Never throws.
int write_text(std::FILE* file, std::string_view text);

// Writes to standard error. Text that cannot be written is lost, without an error or a signal. A command that works
// thus continues, and a command that failed keeps its exit status. Never throws.
void print_error(std::string_view text);

// Flushes standard output. std::system_error if the text in its buffer cannot be written.
void flush_output();

}  // namespace sotto
