#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sotto {

// Two hexadecimal digits a byte.
inline std::string hex_text(std::span<const std::byte> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.end(), ""));
}

// Reads them; false if the text is not as many digits.
inline bool read_hex(std::string_view text, std::span<std::byte> bytes) {
  bool good = text.size() == 2 * bytes.size();
  for (std::size_t i = 0; good && i < bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    unsigned value = 0;
    good = std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    bytes[i] = static_cast<std::byte>(value);
  }
  return good;
}

}  // namespace sotto
