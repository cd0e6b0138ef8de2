#include "sotto/algorithm/ad_psgd/roll.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {

Roll::Roll(int rank, int ranks) : rank_(rank), entries_(static_cast<std::size_t>(ranks)) {}

void Roll::Entry::come_to(std::uint64_t number, std::uint64_t made) {
  if (number <= meeting) return;
  meeting = number;
  met[number % 2] = made;
}

void Roll::come_to_meeting() { mine().come_to(mine().meeting + 1, mine().steps); }

void Roll::write_to(PairNote& note) const {
  note.meeting = mine().meeting;
  note.end = mine().end;
  note.steps = all_steps();
}

void Roll::hear(int sender, const PairNote& note, Clock::time_point now) {
  // Otherwise a note could keep all ranks at work for as long as it likes.
  const std::uint64_t made = note.steps[static_cast<std::size_t>(sender)];
  if (note.end > 0 && note.end - 1 > made) {
    throw WireError(fmt::format("it says that it can end after step {}, and has made {}", note.end, made));
  }
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    if (rank == static_cast<std::size_t>(rank_)) continue;
    Entry& entry = entries_[rank];
    if (note.steps[rank] > entry.steps) entry.moved = now;
    entry.steps = std::max(entry.steps, note.steps[rank]);
  }
  Entry& entry = of(sender);
  if (note.meeting > entry.meeting || note.end > entry.end) entry.moved = now;
  entry.come_to(note.meeting, made);
  entry.end = std::max(entry.end, note.end);
  entry.heard = now;
}

std::vector<std::uint64_t> Roll::all_steps() const {
  std::vector<std::uint64_t> steps;
  for (const Entry& entry : entries_) steps.push_back(entry.steps);
  return steps;
}

std::vector<std::uint64_t> Roll::steps_at_meeting() const {
  const std::uint64_t number = mine().meeting;
  std::vector<std::uint64_t> steps;
  for (const Entry& entry : entries_) steps.push_back(entry.meeting < number ? entry.steps : entry.met[number % 2]);
  return steps;
}

std::uint64_t Roll::total_steps() const {
  std::uint64_t total = 0;
  for (const Entry& entry : entries_) total += entry.steps;
  return total;
}

bool Roll::somebody_meets() const { return std::ranges::max(entries_, {}, &Entry::meeting).meeting > mine().meeting; }

bool Roll::somebody_ends() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.end != 0; });
}

std::uint64_t Roll::common_end() const { return std::ranges::max(entries_, {}, &Entry::end).end; }

bool Roll::lacks(int peer, Await what) const {
  if (peer == rank_ || of(peer).left) return false;
  if (what == Await::meeting) return of(peer).meeting < mine().meeting;
  return what == Await::end && of(peer).end == 0;
}

bool Roll::all_have(Await what) const {
  for (int rank = 0; rank < static_cast<int>(entries_.size()); ++rank) {
    if (lacks(rank, what)) return false;
  }
  return true;
}

void Roll::visit_state(StateVisitor& visitor) {
  ScopedState scoped(visitor, "ad_psgd.steps");
  std::vector<std::uint64_t> steps = steps_at_meeting();
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    Entry& entry = entries_[rank];
    scoped.visit(std::to_string(rank), steps[rank]);
    entry.steps = std::max(entry.steps, steps[rank]);
    entry.met[mine().meeting % 2] = steps[rank];
  }
}

}  // namespace sotto
