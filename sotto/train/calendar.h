#pragma once

#include <cstdint>

#include "sotto/train/options.h"

namespace sotto {

// At which steps of a run its ranks do something together beside training.
class Calendar {
 public:
  struct Due {
    bool evaluation = false, checkpoint = false, comparison = false;  // of `check-replicas`
    bool any() const { return evaluation || checkpoint || comparison; }
  };

  // Of a run of so many steps; an epoch is so many batches, of which a step takes `accumulate`.
  Calendar(const TrainOptions& options, std::uint64_t batches, std::uint64_t steps);

  double epochs_at(std::uint64_t step) const;
  // What fell due on the way from the first of these steps to the second.
  Due due(std::uint64_t before, std::uint64_t done) const;
  // The first step after this one at which an evaluation or a checkpoint is due, or the last step of the run.
  std::uint64_t next_meeting(std::uint64_t done) const;
  // The step that a run has come to whose ranks were to meet at `meeting` and had made `made` steps, on average, when
  // all had come. Ranks do not stop at once: steps beyond a meeting belong to it. Fewer: some rank wished to meet.
  std::uint64_t step_of_meeting(std::uint64_t meeting, std::uint64_t made) const;

 private:
  std::uint64_t eval_freq_, checkpoint_every_, check_replicas_, accumulate_, batches_, steps_;
};

}  // namespace sotto
