#include "sotto/core/error.h"

#include <fmt/format.h>

namespace sotto {

std::string Error::readable(const std::string& message) {
  std::string text;
  for (const char c : message) {
    const bool shown = (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) || c == '\n' || c == '\t' || is_mark(c);
    text += shown ? std::string(1, c) : fmt::format("\\x{:02x}", c);
  }
  return text;
}

}  // namespace sotto
