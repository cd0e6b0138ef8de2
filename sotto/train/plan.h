#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/phased.h"
#include "sotto/train/choices.h"

namespace sotto {

// How long a run is, in steps of all ranks together, and what is sent in them.
struct RunPlan {
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t steps = 0;                // after which the run ends
  std::uint64_t horizon = 0;              // that schedules are stretched over: `max-steps` does not change them
  std::vector<Phase> phases;              // of the codec
  std::string remark;                     // on them; empty: none
  std::vector<TopologyPhase> topologies;  // where their peers change
  // doubt_about() the recipe that it comes to. Of algorithms that exchange models with neighbours: nothing, as they
  // hold back by themselves what a codec leaves out.
  std::string doubt(const AlgorithmSpec& algorithm, std::span<const BucketPlan> buckets) const;
  bool only_dense() const { return phases.back().first_step >= steps && phases.back().first_step > 0; }
};

// Of `batches` micro-steps an epoch and an optimiser that wants so many dense steps first. ConfigError when the epochs
// are shorter than a step, and when the codec cannot be warmed up as the options say.
RunPlan plan_run(const Choices& choices, std::uint64_t batches, std::uint64_t dense_steps);

}  // namespace sotto
