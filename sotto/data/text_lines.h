#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sotto {

// Goes through the lines of a text, and says in errors where it is.
class TextLines {
 public:
  TextLines(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {}

  // Whether there is another line; then `line` is it, without its end.
  bool next(std::string_view& line);
  [[noreturn]] void fail(const std::string& why) const;  // FileError: file:line: why
  // The finite number that `text` is, as a whole.
  float number(std::string_view text, std::string_view what) const;

 private:
  std::string_view rest_;
  std::string file_;
  std::size_t number_ = 0;
};

// `text` without spaces and tabs at its ends.
std::string_view trimmed(std::string_view text);

bool is_utf8(std::string_view text);  // RFC 3629

}  // namespace sotto
