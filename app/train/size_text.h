#pragma once

#include <optional>
#include <string_view>

namespace sotto {

// Parses a size such as "25MB" or "1GiB" as bytes; nothing if it does not end in such a unit. ConfigError, which begins
// with `name`, if no positive number stands before the unit.
std::optional<double> parse_bytes(std::string_view name, std::string_view text);

}  // namespace sotto
