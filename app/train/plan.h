#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/phased.h"
#include "app/train/choices.h"
#include "app/train/course.h"

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

}  // namespace sotto
