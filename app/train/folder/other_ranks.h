#pragma once

#include <filesystem>
#include <string>

#include "app/train/folder/checkpoint.h"
#include "app/train/options/choices.h"
#include "app/train/replica.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/state_file.h"

namespace sotto {

// ConfigError, which says what to do instead, if a run of this identity cannot continue from the checkpoint in
// `folder`: if that is of another model, other data, and so on, or of another number of ranks and the algorithm needs
// the same; in a job whose group `changes` that is allowed anyway. The codec is not compared, since the steps at which
// it changes depend on the checkpoint's course. Returns whether the number of ranks is the same.
bool require_resumable(const Choices& choices, const std::string& folder, const Manifest& manifest,
                       checkpoint::Metadata identity, bool changes);

// Reads a checkpoint that another number of ranks wrote, and fills in the state of `rank`. Parameters, batch-norm
// statistics and the optimiser's vectors become the mean of all ranks; where these had equal values, exactly that
// value. What ranks held back stays as Elastic::take_over() says. Bytes sent and the tally of training are added
// up, and rank 0 gets the sums. `own_parameters`: each rank's part holds parameters; otherwise they are those of the
// model file. FileError.
void read_other_ranks(const std::filesystem::path& folder, int written_by, int rank, bool own_parameters,
                      Replica& replica, Algorithm& algorithm, RunTotals& totals);

}  // namespace sotto
