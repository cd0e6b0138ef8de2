#pragma once

#include <filesystem>
#include <string>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/state_file.h"
#include "sotto/train/choices.h"
#include "sotto/train/manifest.h"
#include "sotto/train/replica.h"
#include "sotto/train/run_totals.h"

namespace sotto {

// ConfigError, which says what to do instead, if a run with these choices cannot go on with `ranks` ranks from the
// checkpoint in `folder`, which `before` ranks wrote.
void require_other_ranks(const Choices& choices, const std::string& folder, const std::string& before, int ranks,
                         const Manifest& manifest);

// Reads a checkpoint that another number of ranks wrote, and fills in the state of `rank`. Parameters, batch-norm
// statistics and the optimiser's vectors become the mean of all ranks; where these had equal values, exactly that
// value. What ranks held back goes on as Algorithm::take_over() says. Bytes sent and the tally of training are added
// up, and rank 0 gets the sums. `own_parameters`: each rank's part holds parameters; otherwise they are those of the
// model file. FileError.
void read_other_ranks(const std::filesystem::path& folder, int written_by, int rank, bool own_parameters,
                      Replica& replica, Algorithm& algorithm, RunTotals& totals);

}  // namespace sotto
