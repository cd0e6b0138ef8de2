#pragma once

#include <cstdint>
#include <optional>

#include "app/train/group_membership.h"
#include "app/train/record/evaluations.h"
#include "app/train/run_log.h"
#include "app/train/session.h"

namespace sotto {

// The present model of a run: its checkpoints and its evaluations. Most functions are collective.
class LatestModel {
 public:
  // `done`: the steps of the run so far, which its owner counts.
  LatestModel(Session& session, RunLog& log, GroupMembership& group, const std::uint64_t& done)
      : session_(session), log_(log), group_(group), done_(done) {}

  void changed() { is_saved_ = is_tested_ = false; }  // a step changed the model
  void resumed();                                     // the run continues from a checkpoint, unless it begins at step 0
  // Replaces the model by the mean of the ranks' models.
  void average();

  // Writes a checkpoint of the model. One that is kept forever replaces one of the same step that is not.
  void save(Kept kept);
  // Runs after an evaluation, if training continues.
  void save_if_best_or_late();

  // Returns whether training ends here: the target is reached, or a signal broke the evaluation off.
  bool evaluate_due();
  void evaluate_last();  // at the end of a run
  // Whether the model has been evaluated: a signal may have broken the evaluation off.
  bool is_tested() const { return is_tested_; }
  TestResult tested() const;  // all metrics are NaN unless is_tested()

 private:
  void evaluate();
  void follow_evaluation();
  std::optional<std::uint64_t> best_step() const;  // nothing unless the best is kept
  bool is_over() const { return done_ == session_.plan().steps; }

  Session& session_;
  RunLog& log_;
  GroupMembership& group_;
  const std::uint64_t& done_;
  TestResult tested_;
  bool is_saved_ = false, is_tested_ = false;
  std::optional<std::uint64_t> kept_;  // the step of the last checkpoint that is kept forever
};

}  // namespace sotto
