#pragma once

#include <deque>
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

// A checkpoint that another number of ranks wrote, as the state of each rank of now:
//   parameters, batch-norm statistics, what optimisers hold   the mean of all ranks; where all have the same, exactly
//   it what ranks held back                                      as Algorithm::take_over() says bytes sent, and what
//   training has counted                 the sum of all, on rank 0
class OtherRanks {
 public:
  // FileError, as from give().
  OtherRanks(const std::filesystem::path& folder, int written_by);

  // `own_parameters`: they are in the parts of ranks, not in the model file.
  void give(int rank, bool own_parameters, Replica& replica, Algorithm& algorithm, RunTotals& totals);

 private:
  class Mean;

  std::filesystem::path folder_;
  std::deque<StateReader> parts_;  // by rank
};

}  // namespace sotto
