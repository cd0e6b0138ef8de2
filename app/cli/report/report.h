#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/cli/report/plot.h"
#include "app/report/page.h"

namespace sotto {

// Reads runs for one page. A run that is damaged or has made no step is left out; a damaged one with a warning.
// FileError if a folder is missing, or no run is left; ConfigError if a folder is given twice, or no run has the
// target's metric.
Report read_report(std::span<const std::string> folders, const std::optional<std::string>& target = {});

// Writes the page of these run folders, and returns a line that says so. `target` is a metric and its value, as
// accuracy=0.97.
std::string write_report(std::span<const std::string> folders, const std::optional<std::string>& target,
                         const std::string& out);

// The figures of the papers on Stochastic Gradient Push. Error against epoch, iteration and time; time per iteration
// and speed-up against the number of ranks. ConfigError if the task of a run has no accuracy.
std::vector<Plot> sgp_plots(const Report& report);

}  // namespace sotto
