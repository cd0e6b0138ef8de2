#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sotto {

// Goes through the lines of a text; its errors name file and line.
class TextLines {
 public:
  // Passes over the byte order mark that some programs write first.
  TextLines(std::string_view text, std::string file);

  // Sets `line` to the next line, without its end; false if there is none.
  bool next(std::string_view& line);
  bool has_text() const;                                 // whether some line after this one is not blank
  std::string place() const;                             // of the line: file:line
  [[noreturn]] void fail(const std::string& why) const;  // FileError: file:line: why
  // Reads all of `text` as a finite number, called `what` in the error; fail() if it is none. A number too small for a
  // float is 0.
  float number(std::string_view text, std::string_view what) const;

 private:
  std::string_view rest_;
  std::string file_;
  std::size_t number_ = 0;
};

bool is_utf8(std::string_view text);  // RFC 3629

}  // namespace sotto
