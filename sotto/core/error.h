#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sotto {

// Error messages refer to options by marks, because each front end spells them in its own way: with dashes on the
// command line, `lr=` in Python. A mark is the option's name, and its value if there is one, between control
// characters, which users do not type.

// The mark of an option: named("lr").
std::string named(std::string_view option);
// The mark of an option with the value that the user gave: named("codec", "topk(2)").
std::string named(std::string_view option, std::string_view value);

// Whether `c` is one of the control characters that marks consist of.
bool is_mark(char c);

// How a front end writes an option; `value` is empty when the mark has none.
using Spelling = std::function<std::string(std::string_view option, std::string_view value)>;
// The spelling without a front end: "codec topk(2)".
std::string plain_spelling(std::string_view option, std::string_view value);
// Replaces every mark of the text by its spelling.
std::string spelled(std::string_view text, const Spelling& spelling = plain_spelling);

// Base of the errors that the outside world causes. Only `main` catches them; each message says what is wrong, where,
// and what to do. Mistakes of a programmer (a broken precondition) are std::logic_error or a failed TORCH_CHECK
// instead. Text from files may have ASCII control characters, and a NUL would end the message. All but line feeds, tabs
// and marks are therefore written as \xNN.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(readable(message)) {}

 protected:
  static std::string readable(const std::string& message);
};

// An option, codec or file of options that cannot be used. Exit status 2. The message names options by marks:
// text() spells them in the way of a front end, what() plainly.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& marked) : Error(spelled(marked)), marked_(readable(marked)) {}
  std::string text(const Spelling& spelling) const { return spelled(marked_, spelling); }

 private:
  std::string marked_;
};

// A message that is damaged or truncated, or belongs to another codec, step or peer.
class WireError : public Error {
 public:
  using Error::Error;
};

// A peer that died, stalled or could not be reached. Names rank, peer, operation and step.
class CommError : public Error {
 public:
  using Error::Error;
};

// A file that is missing, truncated, damaged or cannot be written. Names the file.
class FileError : public Error {
 public:
  using Error::Error;
};

// A loss or gradient that is not finite. Names the tensor and the step.
class NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace sotto
