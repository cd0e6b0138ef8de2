#pragma once

#include <optional>
#include <span>
#include <string>

#include "sotto/report/page.h"

namespace sotto {

// Reads runs for one page. ConfigError or FileError: one is no run, or is given twice, or the target is none of theirs.
Report read_report(std::span<const std::string> folders, const std::optional<std::string>& target = {});

// Writes the page of these run folders, and returns a line that says so. `target` is a metric and its value, as
// accuracy=0.97.
std::string write_report(std::span<const std::string> folders, const std::optional<std::string>& target,
                         const std::string& out);

}  // namespace sotto
