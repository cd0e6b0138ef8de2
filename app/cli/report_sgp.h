#pragma once

#include <vector>

#include "app/cli/plot.h"
#include "app/report/page.h"

namespace sotto {

// The figures of the papers on Stochastic Gradient Push: error against epoch, iteration and time, time an iteration and
// speed-up against ranks. ConfigError if the task of a run has no accuracy.
std::vector<Plot> sgp_plots(const Report& report);

}  // namespace sotto
