#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/task/task.h"
#include "app/train/options/choices.h"
#include "app/train/options/options.h"
#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/core/examples.h"

namespace sotto {

// How many examples a step has: `accumulate` batches on each rank. No number is 0.
struct StepSize {
  std::uint64_t ranks = 1, batch = 1, accumulate = 1;
  bool operator==(const StepSize&) const = default;
};

// Maps the steps of a run to places in its data and its schedules, also after the number of ranks has changed. Steps go
// on counting. In an epoch every example is read once, by any rank. Schedules count in steps of the first start, so a
// rate belongs to the same place in the data whatever the number of ranks is. Checkpoints hold a course.
class Course {
 public:
  // The course of a new run.
  Course(const Epochs& epochs, const StepSize& size);

  const StepSize& size() const { return size_; }
  ReadingStart start() const { return {epochs_.first, epochs_.epoch, read_}; }

  std::uint64_t epoch_of(std::uint64_t step) const { return epochs_.at(step * size_.accumulate).epoch; }
  double epochs_at(std::uint64_t step) const;
  // The first step that begins in this epoch or later, and the number of steps that end before the epoch begins.
  std::uint64_t first_step_in(std::uint64_t epoch) const;
  std::uint64_t steps_before(std::uint64_t epoch) const { return epochs_.begin_of(epoch) / size_.accumulate; }

  // In steps of the first start, as schedules count: the length of an epoch, and the number of the step at the place in
  // the data where `step` begins.
  EpochLength scheduled_epoch() const { return {batches_, accumulate_}; }
  std::uint64_t scheduled_step(std::uint64_t step) const { return batches_at(step) / accumulate_; }

  // The course from `step` on, with steps of another size. It is complete only after set_epochs() with the epochs of a
  // task that continues from start().
  Course changed(std::uint64_t step, const StepSize& size) const;
  void set_epochs(const Epochs& epochs) { epochs_ = epochs; }

  std::string text() const;
  // FileError if it is no course.
  static Course of_text(std::string_view text);

 private:
  Course() = default;
  std::uint64_t batches_at(std::uint64_t step) const;

  std::uint64_t batches_ = 1, accumulate_ = 1;  // of the first start
  StepSize size_;
  Epochs epochs_;
  std::uint64_t made_ = 0;     // how much of epochs_.epoch was read before, in batches of the first start
  std::vector<Reading> read_;  // the stretches of epochs_.epoch that were read before
};

// The length of a run and its phases. Steps are the optimiser's, whichever ranks make them.
struct RunPlan {
  EpochLength epoch;                      // in steps of the first start, as Course
  std::uint64_t horizon = 0;              // the steps that schedules are planned for; `max-steps` does not change it
  std::uint64_t steps = 0;                // the number after which the run ends
  std::vector<Phase> phases;              // of the codec
  std::string remark;                     // about the phases; empty: none
  std::string rate_warning;               // about a preset at its default rate; empty: none
  std::vector<TopologyPhase> topologies;  // the steps at which the topology changes
  // warning_about() the final recipe, or else rate_warning. Empty for algorithms that exchange models with neighbours:
  // by design, these keep the differences that a codec leaves out.
  std::string doubt(const AlgorithmSpec& algorithm, std::span<const BucketPlan> buckets) const;
  // `remark`, and what may surprise the user in the length of the run. Options are marked, for spelled().
  std::vector<std::string> remarks(const Choices& choices) const;
  bool only_dense() const { return phases.back().first_step >= steps && phases.back().first_step > 0; }
};

// Plans a run on this course, with an optimiser that needs `dense_steps` dense steps first.
// ConfigError if an epoch is shorter than a step, or the codec cannot be warmed up as the options say.
RunPlan plan_run(const Choices& choices, const Course& course, std::uint64_t dense_steps);

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
  // Whether an evaluation was due after step `done`. False where that is unknown: at the beginning of this course, if
  // evaluations are due at the ends of epochs.
  bool evaluates_after(std::uint64_t done) const;
  // The first step after `done` at which an evaluation or a checkpoint is due, or the last step of the run.
  std::uint64_t next_meeting(std::uint64_t done) const;
  // The step that the run has reached at a meeting. The ranks were to meet at step `meeting`, and have made `made`
  // steps on average. Ranks do not stop at once, so steps beyond a meeting belong to it. If `made` is less than
  // `meeting`, some rank wished to meet early.
  std::uint64_t step_of_meeting(std::uint64_t meeting, std::uint64_t made) const;

 private:
  std::uint64_t eval_freq_;  // 0: at the end of each epoch
  std::uint64_t checkpoint_every_, check_replicas_;
  Course course_;
  std::uint64_t steps_;
};

}  // namespace sotto
