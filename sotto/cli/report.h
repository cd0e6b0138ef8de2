#pragma once

#include <optional>
#include <span>
#include <string>

#include "sotto/report/page.h"

namespace sotto {

// Reads runs for one page. FileError if a folder is no run, or no run has made a step; ConfigError if a folder is given
// twice, or a run has no such metric as that of the target.
Report read_report(std::span<const std::string> folders, const std::optional<std::string>& target = {});

// Writes the page of these run folders, and returns a line that says so. `target` is a metric and its value, as
// accuracy=0.97.
std::string write_report(std::span<const std::string> folders, const std::optional<std::string>& target,
                         const std::string& out);

}  // namespace sotto
