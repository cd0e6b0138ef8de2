#include "sotto/aggregate/phased.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/memory/carrier.h"
#include "sotto/core/error.h"

namespace sotto {

namespace {

bool is_method(std::string_view where, const std::string& method, std::span<const BucketPlan> buckets) {
  try {
    check_aggregator(where, "auto", method, buckets);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// What to write in place of `after`, so that nothing that `before` holds is lost.
std::string advice(std::string_view where, const Method& before, const Phase& after,
                   std::span<const BucketPlan> buckets) {
  if (before.memory.empty()) {
    return fmt::format("the same `{}` in front of the same `{}`, which alone can take it over",
                       parse_sentence(where, before.aggregator).calls.front().name, before.codec);
  }
  const Method method = read_method(where, after.method);
  if (!method.memory.empty()) return fmt::format("`{}` in place of `{}`", before.memory, method.memory);
  const std::string with = fmt::format("{} | {}", before.memory, after.method == "none" ? "f32" : after.method);
  return fmt::format("`{}`, which sends it", is_method(where, with, buckets) ? with : before.memory + " | f32");
}

}  // namespace

std::vector<Phase> start_after(std::uint64_t steps, std::string_view where, std::vector<Phase> phases) {
  if (steps == 0) return phases;
  const Phase& first = phases.front();
  std::vector<Phase> all{{0, without_codec(where, first.method), dense_aggregator("--aggregator", first.aggregator)}};
  for (Phase& phase : phases) {
    phase.first_step = std::max(phase.first_step, steps);
    if (all.back().first_step == phase.first_step) all.pop_back();
    all.push_back(std::move(phase));
  }
  return all;
}

void check_phases(std::string_view where, std::span<const Phase> phases, std::span<const BucketPlan> buckets) {
  for (std::size_t i = 0; i < phases.size(); ++i) {
    check_aggregator(where, phases[i].aggregator, phases[i].method, buckets);
    if (i == 0) continue;
    const Method before = read_method(where, phases[i - 1].method);
    const std::string held = held_by(where, before);
    if (!held.empty() &&
        group_of("aggregator", phases[i - 1].aggregator) != group_of("aggregator", phases[i].aggregator)) {
      throw ConfigError(
          fmt::format("schedule: aggregator {} from step {} on cannot take over what that of {} holds back: "
                      "say the same groups for all phases",
                      phases[i].aggregator, phases[i].first_step, phases[i - 1].aggregator));
    }
    if (held.empty() || held == held_by(where, read_method(where, phases[i].method))) continue;
    throw ConfigError(fmt::format("schedule: `{}` from step {} on would lose what `{}` holds back; write {}",
                                  phases[i].method, phases[i].first_step, phases[i - 1].method,
                                  advice(where, before, phases[i], buckets)));
  }
}

Phased::Phased(std::string_view where, std::vector<Phase> phases, std::vector<BucketPlan> buckets, int rank, int ranks,
               std::shared_ptr<Workers> workers, std::uint64_t step)
    : where_(where),
      phases_(std::move(phases)),
      buckets_(std::move(buckets)),
      rank_(rank),
      ranks_(ranks),
      workers_(std::move(workers)),
      current_(phase_of(step)) {
  check_phases(where_, phases_, buckets_);  // errors of a later phase are told at once
  aggregator_ = make(current_);
}

std::size_t Phased::phase_of(std::uint64_t step) const {
  const auto after = std::ranges::upper_bound(phases_, step, {}, &Phase::first_step);
  return static_cast<std::size_t>(after - phases_.begin()) - 1;
}

std::unique_ptr<Aggregator> Phased::make(std::size_t phase) const {
  const Phase& chosen = phases_[phase];
  return make_aggregator(where_, chosen.aggregator, chosen.method, buckets_, rank_, ranks_, workers_);
}

void Phased::enter(std::uint64_t step) {
  const std::size_t phase = phase_of(step);
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
