#include "sotto/aggregate/phased.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/aggregate/memory/carrier.h"
#include "sotto/core/error.h"

namespace sotto {

Phased::Phased(std::string_view where, std::vector<Phase> phases, std::vector<BucketPlan> buckets, int rank, int ranks,
               std::shared_ptr<Workers> workers)
    : where_(where),
      phases_(std::move(phases)),
      buckets_(std::move(buckets)),
      rank_(rank),
      ranks_(ranks),
      workers_(std::move(workers)) {
  for (std::size_t phase = 1; phase < phases_.size(); ++phase) {  // errors of a later phase are told at once
    make(phase);
    check_memory(phase);
  }
  aggregator_ = make(0);
}

std::unique_ptr<Aggregator> Phased::make(std::size_t phase) const {
  const Phase& chosen = phases_[phase];
  return make_aggregator(where_, chosen.aggregator, chosen.method, buckets_, rank_, ranks_, workers_);
}

void Phased::check_memory(std::size_t phase) const {
  const Phase& before = phases_[phase - 1];
  const Phase& after = phases_[phase];
  const std::string had = read_method(where_, before.method).memory;
  const std::string has = read_method(where_, after.method).memory;
  if (had.empty() || memory_entry(where_, had) == memory_entry(where_, has)) return;
  const std::string advice =
      has.empty() ? fmt::format("`{} | {}`, which sends it", had, after.method == "none" ? "f32" : after.method)
                  : fmt::format("`{}` in place of `{}`", had, has);
  throw ConfigError(fmt::format("schedule: `{}` from step {} on would lose what `{}` holds back; write {}",
                                after.method, after.first_step, before.method, advice));
}

void Phased::enter(std::uint64_t step) {
  const auto after = std::ranges::upper_bound(phases_, step, {}, &Phase::first_step);
  const auto phase = static_cast<std::size_t>(after - phases_.begin()) - 1;
  if (phase == current_) return;
  auto next = make(phase);
  MemoryCarrier carrier(1);
  carrier.take(*aggregator_);
  carrier.give(*next);
  aggregator_ = std::move(next);
  current_ = phase;
}

std::string canonical_phases(std::string_view where, const std::vector<Phase>& phases) {
  if (phases.size() == 1) return canonical_method(where, phases.front().method);
  std::string text;
  for (const Phase& phase : phases) {
    text += fmt::format("{}from step {}: {}", text.empty() ? "" : "; ", phase.first_step,
                        canonical_method(where, phase.method));
  }
  return text;
}

}  // namespace sotto
