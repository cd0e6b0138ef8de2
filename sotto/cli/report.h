#pragma once

#include <optional>
#include <span>
#include <string>

namespace sotto {

// Writes the page of these run folders, and returns a line that says so. `target` is a metric and its value, as
// accuracy=0.97.
std::string write_report(std::span<const std::string> folders, const std::optional<std::string>& target,
                         const std::string& out);

}  // namespace sotto
