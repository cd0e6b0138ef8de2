#pragma once

#include <cstdint>
#include <vector>

#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/algorithm/ad_psgd/roll.h"

namespace sotto {

// Decides what a rank passes on, so that all learn of a meeting or of the end with a few messages each, however many
// ranks there are. They form a binary tree with rank 0 at the root. A rank that learns of a new meeting tells all its
// neighbours. A rank tells its parent once it has come itself and all ranks below it have; when the root knows that all
// have come, it tells its children, and these tell theirs. The same goes for ends.
//
// This does not depend on the order of messages. If a rank leaves in between, what it would have passed on is lost, so
// the others must then tell each other.
class Relay {
 public:
  struct Letter {
    int peer;
    PairNote::Kind kind;    // met or ends
    std::uint64_t meeting;  // that the letter is about
    bool operator==(const Letter&) const = default;
  };
  Relay(int rank, int ranks);

  // What must be sent now, after the roll has changed. Each letter is returned once.
  std::vector<Letter> due(const Roll& roll);

 private:
  // The number of the last meeting of which these were told. There is one end, which has the number 1.
  struct Told {
    std::uint64_t called = 0, parent = 0, children = 0;
  };
  bool whole(const Roll& roll, Roll::Await what) const;

  int parent_;  // -1: none
  std::vector<int> children_;
  std::vector<int> below_;  // all ranks below this one
  Told meetings_, ends_;
};

}  // namespace sotto
