#pragma once

#include <cstdint>

#include "app/train/course.h"
#include "app/train/options.h"

namespace sotto {

// The steps of a run at which its ranks do something together besides training.
class Calendar {
 public:
  struct Due {
    bool evaluation = false, checkpoint = false, comparison = false;  // of `check-replicas`
    bool any() const { return evaluation || checkpoint || comparison; }
  };

  // For a run of `steps` steps.
  Calendar(const TrainOptions& options, Course course, std::uint64_t steps);

  // What became due after step `before`, up to step `done`.
  Due due(std::uint64_t before, std::uint64_t done) const;
  // Whether an evaluation was due after step `done`. Unknown, and false, if an epoch ended where this course begins.
  bool evaluates_after(std::uint64_t done) const;
  // The first step after `done` at which an evaluation or a checkpoint is due, or the last step of the run.
  std::uint64_t next_meeting(std::uint64_t done) const;
  // The step that counts as reached when the ranks, which were to meet at step `meeting`, have all come and have made
  // `made` steps on average. Ranks do not stop at once, so steps beyond a meeting belong to it. Fewer steps than
  // `meeting` mean that some rank wished to meet early.
  std::uint64_t step_of_meeting(std::uint64_t meeting, std::uint64_t made) const;

 private:
  std::uint64_t eval_freq_;  // 0: at the end of each epoch
  std::uint64_t checkpoint_every_, check_replicas_;
  Course course_;
  std::uint64_t steps_;
};

}  // namespace sotto
