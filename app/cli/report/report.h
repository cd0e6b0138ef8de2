#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/cli/report/plot.h"
#include "app/report/page.h"
#include "app/report/recorded_run.h"

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

// What `sotto watch` shows of a run:

// "step 120 of 400  epoch 0.31 of 3  loss 0.2134  37.2 ms a step  25.1 KB sent a rank and step  11 s left"
std::string progress_line(const LiveRun& run);
// "test after 100 steps: loss 0.1234  accuracy 97.12"
std::string evaluation_line(const EvaluationRow& row);
// The state of the run: "running", "ended after 400 steps", "stopped without a result: ...".
std::string state_line(const LiveRun& run);
// The lines above, a curve of the loss and a table of the ranks, in at most so many columns and lines.
std::vector<std::string> view_of(const LiveRun& run, int columns, int lines);

}  // namespace sotto
