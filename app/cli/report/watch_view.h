#pragma once

#include <string>
#include <vector>

#include "app/report/recorded_run.h"

namespace sotto {

// "step 120 of 400  epoch 0.31 of 3  loss 0.2134  37.2 ms a step  25.1 KB sent a rank and step  11 s left"
std::string progress_line(const LiveRun& run);
// "test after 100 steps: loss 0.1234  accuracy 97.12"
std::string evaluation_line(const EvaluationRow& row);
// The state of the run: "running", "ended after 400 steps", "stopped without a result: ...".
std::string state_line(const LiveRun& run);
// The lines above, a curve of the loss and a table of the ranks, in at most so many columns and lines.
std::vector<std::string> view_of(const LiveRun& run, int columns, int lines);

}  // namespace sotto
