#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Numbers between two ends, as users write them:
//   2^-7..2^-1     every whole power of the base
//   1..8           every whole number
//   0.001..0.1/5   five numbers in equal ratios
//   0.001..0.1     any number between them; such a range can be drawn from, but not listed
struct ValueRange {
  enum class Kind { powers, whole, ratios, any };
  Kind kind = Kind::any;
  double low = 0, high = 0;  // of the values; for powers, of the exponents
  double base = 0;           // of powers
  std::int64_t count = 0;    // of ratios

  // Reads a range; nothing if the text is no range, such as a path with `..` in it. ConfigError, which begins with
  // `where`, for ends in the wrong order, ratios of numbers that are not positive, and the like.
  static std::optional<ValueRange> of_text(std::string_view where, std::string_view text);

  // How many values values() has; nothing if they cannot be listed.
  std::optional<std::uint64_t> size() const;
  std::vector<std::string> values() const;  // REQUIRES a size that fits into memory
};

// The value of "2^-2"; nothing for any other text.
std::optional<double> power_of_text(std::string_view text);

}  // namespace sotto
