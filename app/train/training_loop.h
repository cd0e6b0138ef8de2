#pragma once

#include <cstdint>
#include <vector>

#include "app/train/group_membership.h"
#include "app/train/latest_model.h"
#include "app/train/record/gradient_study.h"
#include "app/train/run_log.h"
#include "app/train/session.h"
#include "app/train/trainer.h"

namespace sotto {

// The steps of a start or generation, and what is due after each: evaluations, checkpoints, comparisons of replicas.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, RunLog& log, GroupMembership& group);
  // Trains. REQUIRES Session::meet(); may be called once. After a CommError the run continues in another session, if
  // the group may change. EndedWithCheckpoint if World::failure is set.
  TrainResult run();

 private:
  void begin();
  void end(TrainResult& result);
  [[noreturn]] void end_with_checkpoint();
  bool train_step(std::uint64_t step);
  bool continue_together();
  std::vector<std::uint64_t> rank_steps();
  std::uint64_t step_of_meeting();
  bool is_over() const { return done_ == session_.plan().steps; }

  Session& session_;
  RunLog& log_;
  GroupMembership& group_;
  LatestModel model_;
  GradientStudy study_;
  std::uint64_t first_ = 0;               // the first step of this rank since the last start
  std::uint64_t done_ = 0, meeting_ = 0;  // steps of the run so far, and the step at which the ranks meet next
  std::uint64_t finished_ = 0;            // everything that was due up to this step is done
};

}  // namespace sotto
