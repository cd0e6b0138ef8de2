#include "sotto/aggregate/scheduled_aggregator.h"

#include <fmt/format.h>

#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/memory/momentum.h"
#include "sotto/kernels/vector.h"

namespace sotto {

namespace {

bool fits(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  try {
    check_aggregator(recipe, buckets);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// What to write in place of `after`, so that nothing that `before` holds is lost.
std::string advice(const Recipe& before, const Recipe& after, std::span<const BucketPlan> buckets) {
  if (!before.memory) {
    return fmt::format("the same `{}` in front of the same `{}`, which alone can take it over",
                       before.aggregator.entry->name, text_of(before.stages));
  }
  if (after.memory)
    return fmt::format("`{}` in place of `{}`", before.memory.source_text(), after.memory.source_text());
  Recipe with = after;
  with.memory = before.memory;
  if (!fits(with, buckets)) return fmt::format("`{} | f32`, which sends it", before.memory.source_text());
  return fmt::format("`{} | {}`, which sends it", before.memory.source_text(),
                     after.source_text == "none" ? "f32" : after.source_text);
}

// Carries memories to the aggregator that takes over: the sum of the memories of all aggregators passed to take(),
// times `share`. Memories are the vectors of floats that aggregators name memory.*.
class MemoryCarrier final : public StateVisitor {
 public:
  explicit MemoryCarrier(float share) : share_(share) {}

  // Takes the memory of `from`, which must not be used afterwards.
  void take(Aggregator& from) {
    from.retire();
    from.visit_state(*this);
  }

  void give(Aggregator& to) {
    giving_ = true;
    to.visit_state(*this);
  }

  void visit(std::string_view name, std::vector<float>& values) override {
    if (!name.starts_with("memory.")) return;
    if (!giving_) {
      const auto [sum, first] = kept_.try_emplace(std::string(name), std::move(values));
      if (first) {
        kernels::scale(share_, sum->second);
      } else {
        kernels::axpy(share_, values, sum->second);
      }
    } else if (const auto found = kept_.find(name); found != kept_.end()) {
      values = std::move(found->second);
    }
  }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

 private:
  float share_;
  bool giving_ = false;
  std::map<std::string, std::vector<float>, std::less<>> kept_;
};

}  // namespace

std::vector<Phase> start_after(std::uint64_t steps, std::vector<Phase> phases) {
  if (steps == 0) return phases;
  std::vector<Phase> all{{0, without_codec(phases.front().recipe)}};
  for (Phase& phase : phases) {
    phase.first_step = std::max(phase.first_step, steps);
    if (all.back().first_step == phase.first_step) all.pop_back();
    all.push_back(std::move(phase));
  }
  return all;
}

void check_phases(std::span<const Phase> phases, std::span<const BucketPlan> buckets) {
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Recipe& recipe = phases[i].recipe;
    check_aggregator(recipe, buckets);
    if (i == 0) continue;
    const Recipe& before = phases[i - 1].recipe;
    const std::string held = held_by(before);
    if (!held.empty() && group_of(before.aggregator) != group_of(recipe.aggregator)) {
      throw ConfigError(
          fmt::format("schedule: aggregator {} from step {} on cannot take over what {} holds back: "
                      "say the same groups for all phases",
                      text_of(recipe.aggregator), phases[i].first_step, text_of(before.aggregator)));
    }
    if (is_momentum_of_mean(recipe.memory) && !is_momentum_of_mean(before.memory)) {
      throw ConfigError(
          fmt::format("schedule: `{}` from step {} on: the momentum of the mean begins with the training; write `{}`",
                      recipe.source_text, phases[i].first_step, "momentum | f32"));
    }
    if (held.empty() || held == held_by(recipe)) continue;
    throw ConfigError(fmt::format("schedule: `{}` from step {} on would lose what `{}` holds back; write {}",
                                  recipe.source_text, phases[i].first_step, before.source_text,
                                  advice(before, recipe, buckets)));
  }
}

ScheduledAggregator::ScheduledAggregator(std::vector<Phase> phases, std::vector<BucketPlan> buckets, int rank,
                                         int ranks, std::shared_ptr<ThreadPool> pool, std::uint64_t step)
    : phases_(std::move(phases)),
      buckets_(std::move(buckets)),
      rank_(rank),
      ranks_(ranks),
      pool_(std::move(pool)),
      current_(phase_of(step)) {
  check_phases(phases_, buckets_);  // finds errors of later phases at once
  aggregator_ = make(current_, rank_, ranks_);
}

std::size_t ScheduledAggregator::phase_of(std::uint64_t step) const {
  const auto after = std::ranges::upper_bound(phases_, step, {}, &Phase::first_step);
  return static_cast<std::size_t>(after - phases_.begin()) - 1;
}

std::unique_ptr<Aggregator> ScheduledAggregator::make(std::size_t phase, int rank, int ranks) const {
  return make_aggregator(phases_[phase].recipe, buckets_, rank, ranks, pool_);
}

void ScheduledAggregator::enter(std::uint64_t step) {
  const std::size_t phase = phase_of(step);
  if (phase == current_) return;
  auto next = make(phase, rank_, ranks_);
  MemoryCarrier carrier(1);
  carrier.take(*aggregator_);
  carrier.give(*next);
  aggregator_ = std::move(next);
  current_ = phase;
}

void ScheduledAggregator::take_over(std::span<const FormerRank> each) {
  const int group = static_cast<int>(group_of(phase().recipe.aggregator).value_or(1));
  MemoryCarrier carrier(static_cast<float>(group) / static_cast<float>(each.size()));
  for (const FormerRank& former : each) {
    const auto before = make(current_, former.rank, former.ranks);
    before->visit_state(*former.state);
    if (former.rank % group == rank_ % group) carrier.take(*before);
  }
  carrier.give(*aggregator_);
}

std::string text_of(std::span<const Phase> phases) {
  if (phases.size() == 1) return phases.front().recipe.text();
  std::string text;
  for (const Phase& phase : phases) {
    text += fmt::format("{}from step {}: {}", text.empty() ? "" : "; ", phase.first_step, phase.recipe.text());
  }
  return text;
}

}  // namespace sotto
