#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/train/course.h"
#include "app/train/options/choices.h"
#include "app/train/options/options.h"
#include "sotto/aggregate/phased.h"

namespace sotto {

// The length of a run and its phases. A step is one of the optimiser, whichever ranks make it.
struct RunPlan {
  EpochLength epoch;                      // in steps of the first start, as Course
  std::uint64_t horizon = 0;              // the length of the schedules, as well; `max-steps` does not change it
  std::uint64_t steps = 0;                // the number after which the run ends
  std::vector<Phase> phases;              // of the codec
  std::string remark;                     // about the phases; empty: none
  std::string rate_doubt;                 // about a preset at its default rate; empty: none
  std::vector<TopologyPhase> topologies;  // the steps at which the topology changes
  // doubt_about() the final recipe, or else rate_doubt. Empty for algorithms that exchange models with neighbours: they
  // keep what a codec leaves out by design.
  std::string doubt(const AlgorithmSpec& algorithm, std::span<const BucketPlan> buckets) const;
  // `remark`, and what the user may not expect of the length of the run; spelled() gives them the names of flags.
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
