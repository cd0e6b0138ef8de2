#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/recipe.h"

namespace sotto {

// How gradients are averaged from step `first_step` on.
struct Phase {
  std::uint64_t first_step = 0;
  Recipe recipe{};
};

// Puts `steps` dense steps (without_codec()) first. Phases that would start during them are postponed to their end.
std::vector<Phase> start_after(std::uint64_t steps, std::vector<Phase> phases);

// ConfigError if a recipe does not suit the buckets, or if a phase cannot take over what the phase before it holds back
// (held_by()), because that would be lost. Allocates nothing of the size of the buckets.
void check_phases(std::span<const Phase> phases, std::span<const BucketPlan> buckets);

// Aggregators that follow one another, as the phases of a schedule say. Each is made when its phase begins. It takes
// over, from the aggregator before it, all state named memory.* that both have. Other state (warm starts, choices of
// `auto`) starts over. Allocates only between phases.
class ScheduledAggregator {
 public:
  // Phases in ascending order of first step, the first one at 0; the rest as for make_aggregator(). Begins with the
  // phase of `step`. ConfigError as check_phases().
  ScheduledAggregator(std::vector<Phase> phases, std::vector<BucketPlan> buckets, int rank, int ranks,
                      std::shared_ptr<ThreadPool> pool, std::uint64_t step = 0);

  // Call it before current() of this step: if a new phase begins with the step, that phase takes over. REQUIRES steps
  // that do not go back.
  void enter(std::uint64_t step);
  const Phase& phase() const { return phases_[current_]; }

  Aggregator& current() const { return *aggregator_; }  // of this phase, until the next enter()
  // Called in place of a reading visit_state() of current() if the group of ranks has changed. `each`: this rank's
  // former self alone, or all ranks of a former group, in the current phase. The memory becomes the mean of their
  // memories, after owners of chunks have put into these what they held back. Everything else starts over. Ranks of
  // `hierarchical` hold back shards; there the mean is over the ranks of the same place in their groups. ConfigError if
  // the former ranks do not fall into such groups.
  void take_over(std::span<const FormerRank> each);

 private:
  std::size_t phase_of(std::uint64_t step) const;
  std::unique_ptr<Aggregator> make(std::size_t phase, int rank, int ranks) const;

  std::vector<Phase> phases_;
  std::vector<BucketPlan> buckets_;
  int rank_, ranks_;
  std::shared_ptr<ThreadPool> pool_;
  std::size_t current_;
  std::unique_ptr<Aggregator> aggregator_;
};

// Every phase with every option named, as checkpoints store it; the recipe alone if there is only one.
std::string text_of(std::span<const Phase> phases);

}  // namespace sotto
