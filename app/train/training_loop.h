#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/train/evaluate.h"
#include "app/train/gradient_study.h"
#include "app/train/group_membership.h"
#include "app/train/run_log.h"
#include "app/train/session.h"
#include "app/train/trainer.h"

namespace sotto {

// The steps of a start or generation, and what is due after each: evaluations, checkpoints, comparisons of replicas.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, RunLog& log, GroupMembership& group);
  // Trains, once. REQUIRES Session::meet(). CommError, if the group may change: it continues in another session.
  // EndedWithCheckpoint if World::failure is set.
  TrainResult run();

 private:
  void begin();
  void end(TrainResult& result);
  [[noreturn]] void end_with_checkpoint();
  bool train_step(std::uint64_t step);
  bool continue_together();
  std::vector<std::uint64_t> rank_steps();
  std::uint64_t step_of_meeting();
  void save(Kept kept);
  void save_if_best_or_late();
  std::optional<std::uint64_t> best_step() const;  // nothing unless the best is kept
  void evaluate();
  bool evaluate_due();
  void follow_evaluation();
  void average_models();
  bool is_over() const { return done_ == session_.plan().steps; }

  Session& session_;
  RunLog& log_;
  GroupMembership& group_;
  GradientStudy study_;
  std::uint64_t first_ = 0;               // of this rank, since the last start
  std::uint64_t done_ = 0, meeting_ = 0;  // steps of the run so far, and the step at which the ranks meet next
  std::uint64_t finished_ = 0;            // up to this step, all that was due is done
  TestResult tested_;
  bool is_saved_ = false, is_tested_ = false;  // whether the current model has a checkpoint, and an evaluation
  std::optional<std::uint64_t> kept_;          // the step of the last checkpoint that is kept forever
};

}  // namespace sotto
