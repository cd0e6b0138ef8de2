#include "app/train/rollback.h"

#include <algorithm>
#include <utility>

namespace sotto {
namespace {

void visit_replica(StateCopy& state, Replica& replica, RunTotals& totals) {
  Task& task = replica.task();
  totals.visit_state(state);
  state.visit("parameters", task.parameters());
  state.visit("buffers", task.buffers());
  replica.visit_state(state);
  replica.visit_trained(state);
}

}  // namespace

void Rollback::begin(std::uint64_t generation, Manifest manifest, int rank, int ranks, std::uint64_t step) {
  begun_ = step;
  origin_ = std::make_shared<const Origin>(generation, std::move(manifest), rank, ranks);
  for (Kept& kept : kept_) {
    if (kept.step && *kept.step > step) kept.step.reset();
  }
}

void Rollback::forget() {
  for (Kept& kept : kept_) kept.step.reset();
}

void Rollback::keep(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals totals) {
  if (has(step)) return;
  Kept& kept = *std::ranges::min_element(kept_, {}, &Kept::step);  // the older one
  kept.step.reset();                                               // until it is whole
  kept.origin = origin_;
  kept.state.take();
  visit_replica(kept.state, replica, totals);
  algorithm.visit_state(kept.state);
  kept.step = step;
}

const Rollback::Kept* Rollback::find(std::uint64_t step) const {
  const auto found = std::ranges::find(kept_, step, &Kept::step);
  return found == kept_.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> Rollback::last() const { return std::max(kept_[0].step, kept_[1].step); }

Manifest Rollback::manifest(std::uint64_t step) const {
  Manifest manifest = find(step)->origin->manifest;
  manifest.step = step;
  return manifest;
}

void Rollback::give(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals& totals) {
  Kept& kept = *std::ranges::find(kept_, step, &Kept::step);
  kept.state.give();
  visit_replica(kept.state, replica, totals);
  const FormerRank self{kept.origin->rank, kept.origin->ranks, &kept.state};
  algorithm.elastic()->visit_shared(kept.state);
  algorithm.elastic()->take_over({&self, 1});
}

}  // namespace sotto
