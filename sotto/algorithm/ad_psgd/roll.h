#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {

// What a rank knows about itself and about all others, which go at their own speed: how many steps each has made, which
// meetings it has come to, and after which step it can end. Each message tells what its sender knows; of two numbers,
// the larger one counts.
class Roll {
 public:
  // What others wait for a rank to do.
  enum class Await : std::uint8_t { nothing, meeting, end };

  Roll(int rank, int ranks);

  void begin_at(std::uint64_t steps);  // each rank has made so many
  // What this rank does.
  void count_step() { ++mine().steps; }
  void come_to_meeting();
  void end_behind(std::uint64_t steps) { mine().end = steps; }
  // Fills in `note` as its kind requires; a note of kind met is about `meeting`.
  void write_to(PairNote& note, std::uint64_t meeting = 0) const;

  // Takes over what a note says about ranks, but not what others say about this rank. WireError if some rank would end
  // more than one step after the steps that it has made.
  void hear(int sender, const PairNote& note, Clock::time_point now);
  // `peer` has closed its mailbox: nobody waits for it any more. Returns whether that is new.
  bool leave(int peer) { return !std::exchange(of(peer).left, true); }

  std::uint64_t steps() const { return mine().steps; }
  std::uint64_t steps_of(int rank) const { return of(rank).steps; }
  std::uint64_t meeting() const { return meeting_; }
  std::uint64_t newest_meeting() const;  // that some rank has come to
  std::uint64_t end() const { return mine().end; }
  std::vector<std::uint64_t> all_steps() const;
  // The steps of each rank at the meeting that this rank came to last. They are the same on all ranks once all have
  // come, even if some have gone on since.
  std::vector<std::uint64_t> steps_at_meeting() const;
  std::uint64_t total_steps() const;
  bool somebody_meets() const { return newest_meeting() > meeting_; }
  bool somebody_ends() const { return common_end() != 0; }
  bool somebody_left() const;
  std::uint64_t common_end() const;  // the largest that any rank said; 0: none did

  // Whether this peer has yet to do `what`.
  bool lacks(int peer, Await what) const;
  bool all_have(Await what) const;
  // When this peer was last heard of, and when its steps, meeting or end last changed.
  Clock::time_point heard(int peer) const { return of(peer).heard; }
  Clock::time_point moved(int peer) const { return of(peer).moved; }
  // Visits the steps of each rank at the meeting.
  void visit_state(StateVisitor& visitor);

 private:
  struct Entry {
    // The last two meetings that the rank of this entry has come to, as far as this rank knows, and its steps by then.
    // The index of a meeting is the parity of its number: no rank is two meetings ahead of another one. All have come
    // to meeting 0.
    struct Meeting {
      std::uint64_t number = 0, steps = 0;
    };
    std::array<Meeting, 2> meetings{};
    std::uint64_t steps = 0, end = 0;
    bool has_come_to(std::uint64_t number) const { return meetings[number % 2].number == number; }
    bool come_to(std::uint64_t number, std::uint64_t made);  // whether that is new
    bool left = false;
    Clock::time_point heard{}, moved{};
  };
  Entry& of(int rank) { return entries_[static_cast<std::size_t>(rank)]; }
  const Entry& of(int rank) const { return entries_[static_cast<std::size_t>(rank)]; }
  Entry& mine() { return of(rank_); }
  const Entry& mine() const { return of(rank_); }

  int rank_;
  std::uint64_t meeting_ = 0;  // the last one that this rank has come to
  std::vector<Entry> entries_;
};

// Decides what a rank passes on, so that all learn of a meeting or of the end with a few messages each, however many
// ranks there are. They form a binary tree with rank 0 at the root. A rank that learns of a new meeting tells all its
// neighbours. A rank tells its parent once it has come itself and all ranks below it have; when the root knows that all
// have come, it tells its children, and these tell theirs. The same goes for ends.
//
// This does not depend on the order of messages. If a rank leaves in between, what it would have passed on is lost, so
// the others must then tell each other.
class RollTree {
 public:
  struct Letter {
    int peer;
    PairNote::Kind kind;    // met or ends
    std::uint64_t meeting;  // that the letter is about
    bool operator==(const Letter&) const = default;
  };
  RollTree(int rank, int ranks);

  // What must be sent now, after the roll has changed. Each letter is returned once.
  std::vector<Letter> due(const Roll& roll);

 private:
  // The last meetings of which this rank has told others. `called`: all neighbours, that the meeting is called.
  // `parent`: its parent, that all ranks below have come. `children`: its children, that all ranks have come. The only
  // end has the number 1.
  struct Told {
    std::uint64_t called = 0, parent = 0, children = 0;
  };
  bool all_below_have(const Roll& roll, Roll::Await what) const;

  int parent_;  // -1: none
  std::vector<int> children_;
  std::vector<int> below_;  // all ranks below this one
  Told meetings_, ends_;
};

}  // namespace sotto
