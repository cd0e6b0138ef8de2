#include "sotto/algorithm/ad_psgd/roll.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {

Roll::Roll(int rank, int ranks) : rank_(rank), entries_(static_cast<std::size_t>(ranks)) {}

bool Roll::Entry::come_to(std::uint64_t number, std::uint64_t made) {
  Meeting& last = meetings[number % 2];
  if (number <= last.number) return false;
  last = {number, made};
  return true;
}

void Roll::come_to_meeting() { mine().come_to(++meeting_, mine().steps); }

void Roll::write_to(PairNote& note, std::uint64_t meeting) const {
  using Kind = PairNote::Kind;
  note.meeting = note.kind == Kind::met ? meeting : meeting_;
  note.end = note.kind == Kind::ends ? common_end() : note.kind == Kind::met ? 0 : mine().end;
  note.steps = all_steps();
  note.marked.assign(entries_.size(), false);
  if (note.kind == Kind::news) note.number = mine().meetings[meeting_ % 2].steps < mine().steps;
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    const Entry& entry = entries_[rank];
    if (note.kind == Kind::ends) note.marked[rank] = entry.end > 0;
    if (note.kind != Kind::met || !entry.has_come_to(meeting)) continue;
    note.marked[rank] = true;
    note.steps[rank] = entry.meetings[meeting % 2].steps;
  }
}

void Roll::hear(int sender, const PairNote& note, Clock::time_point now) {
  // No rank may end later than one step after those it has made: a note could otherwise keep all ranks at work for
  // ever.
  const bool of_ends = note.kind == PairNote::Kind::ends;
  const std::uint64_t made = of_ends ? std::ranges::max(note.steps) : note.steps[static_cast<std::size_t>(sender)];
  if (note.end > 0 && note.end - 1 > made) {
    throw WireError(fmt::format("it says that {} can end after step {}, and has made {}", of_ends ? "a rank" : "it",
                                note.end, made));
  }
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    if (rank == static_cast<std::size_t>(rank_)) continue;
    Entry& entry = entries_[rank];
    const bool told = note.about_all() ? note.marked[rank] : rank == static_cast<std::size_t>(sender);
    bool moves = note.steps[rank] > entry.steps;
    if (told && note.end > entry.end) {
      entry.end = note.end;
      moves = true;
    }
    // Other notes of a rank may count steps that it made after the meeting.
    const bool is_there = note.kind == PairNote::Kind::news && note.number == 0;
    if (told && (is_there || note.kind == PairNote::Kind::met)) {
      moves = entry.come_to(note.meeting, note.steps[rank]) || moves;
    }
    entry.steps = std::max(entry.steps, note.steps[rank]);
    if (moves) entry.moved = now;
  }
  of(sender).heard = now;
}

std::vector<std::uint64_t> Roll::all_steps() const {
  std::vector<std::uint64_t> steps;
  for (const Entry& entry : entries_) steps.push_back(entry.steps);
  return steps;
}

std::vector<std::uint64_t> Roll::steps_at_meeting() const {
  std::vector<std::uint64_t> steps;
  for (const Entry& entry : entries_) {
    steps.push_back(entry.has_come_to(meeting_) ? entry.meetings[meeting_ % 2].steps : entry.steps);
  }
  return steps;
}

std::uint64_t Roll::total_steps() const {
  std::uint64_t total = 0;
  for (const Entry& entry : entries_) total += entry.steps;
  return total;
}

std::uint64_t Roll::newest_meeting() const {
  std::uint64_t newest = 0;
  for (const Entry& entry : entries_) {
    for (const auto& meeting : entry.meetings) newest = std::max(newest, meeting.number);
  }
  return newest;
}

bool Roll::somebody_left() const { return std::ranges::any_of(entries_, &Entry::left); }

std::uint64_t Roll::common_end() const { return std::ranges::max(entries_, {}, &Entry::end).end; }

bool Roll::lacks(int peer, Await what) const {
  if (peer == rank_ || of(peer).left) return false;
  if (what == Await::meeting) return !of(peer).has_come_to(meeting_);
  return what == Await::end && of(peer).end == 0;
}

bool Roll::all_have(Await what) const {
  for (int rank = 0; rank < static_cast<int>(entries_.size()); ++rank) {
    if (lacks(rank, what)) return false;
  }
  return true;
}

void Roll::begin_at(std::uint64_t steps) {
  for (Entry& entry : entries_) {
    entry.steps = steps;
    entry.meetings[meeting_ % 2] = {meeting_, steps};
  }
}

void Roll::visit_state(StateVisitor& visitor) {
  ScopedState scoped(visitor, "ad_psgd.steps");
  std::vector<std::uint64_t> steps = steps_at_meeting();
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    Entry& entry = entries_[rank];
    scoped.visit(std::to_string(rank), steps[rank]);
    entry.steps = std::max(entry.steps, steps[rank]);
    entry.meetings[meeting_ % 2] = {meeting_, steps[rank]};
  }
}

RollTree::RollTree(int rank, int ranks) : parent_(rank == 0 ? -1 : (rank - 1) / 2) {
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < ranks; ++child) children_.push_back(child);
  for (int first = 2 * rank + 1, count = 2; first < ranks; first = 2 * first + 1, count *= 2) {
    for (int peer = first; peer < std::min(first + count, ranks); ++peer) below_.push_back(peer);
  }
}

bool RollTree::all_below_have(const Roll& roll, Roll::Await what) const {
  return std::ranges::none_of(below_, [&](int peer) { return roll.lacks(peer, what); });
}

std::vector<RollTree::Letter> RollTree::due(const Roll& roll) {
  std::vector<Letter> due;
  const auto add = [&](int peer, PairNote::Kind kind, std::uint64_t meeting) {
    const Letter letter{peer, kind, meeting};
    if (peer >= 0 && std::ranges::find(due, letter) == due.end()) due.push_back(letter);
  };
  const auto pass_on = [&](Told& told, PairNote::Kind kind, Roll::Await what, std::uint64_t newest, std::uint64_t own) {
    const auto about = [&](std::uint64_t number) { return kind == PairNote::Kind::met ? number : 0; };
    if (newest > told.called) {
      told.called = newest;
      add(parent_, kind, about(newest));
      for (const int child : children_) add(child, kind, about(newest));
    }
    if (own > told.parent && all_below_have(roll, what)) {
      told.parent = own;
      add(parent_, kind, about(own));
    }
    if (own > told.children && roll.all_have(what)) {
      told.children = own;
      for (const int child : children_) add(child, kind, about(own));
    }
  };
  pass_on(meetings_, PairNote::Kind::met, Roll::Await::meeting, roll.newest_meeting(), roll.meeting());
  pass_on(ends_, PairNote::Kind::ends, Roll::Await::end, roll.somebody_ends() ? 1 : 0, roll.end() > 0 ? 1 : 0);
  return due;
}

}  // namespace sotto
