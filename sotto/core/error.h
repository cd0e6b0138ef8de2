#pragma once

#include <stdexcept>
#include <string>

#include "sotto/core/option_name.h"

namespace sotto {

// Everything that the outside world can do wrong. Only `main` catches them; each message names what, where and what to
// do. Mistakes of a programmer (a broken precondition) are std::logic_error or a failed TORCH_CHECK instead.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An option, sentence or file of options that cannot be used. Exit status 2. Its text holds marks of the options that
// it is about (option_name.h), which text() spells as a front end does; what() spells them plainly.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& marked) : Error(spelled(marked)), marked_(marked) {}
  std::string text(const Spelling& spelling) const { return spelled(marked_, spelling); }

 private:
  std::string marked_;
};

// Bytes of a message that are not what they should be: damaged, truncated, of another codec, step or peer.
class WireError : public Error {
 public:
  using Error::Error;
};

// A peer that died, stalled or could not be reached: names rank, peer, operation and step.
class CommError : public Error {
 public:
  using Error::Error;
};

// A file that is missing, truncated, damaged or cannot be written: names the file.
class FileError : public Error {
 public:
  using Error::Error;
};

// A loss or gradient that is not finite: names the tensor and the step.
class NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace sotto
