#include "sotto/algorithm/ad_psgd/relay.h"

#include <algorithm>

namespace sotto {

Relay::Relay(int rank, int ranks) : parent_(rank == 0 ? -1 : (rank - 1) / 2) {
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < ranks; ++child) children_.push_back(child);
  for (int first = 2 * rank + 1, count = 2; first < ranks; first = 2 * first + 1, count *= 2) {
    for (int peer = first; peer < std::min(first + count, ranks); ++peer) below_.push_back(peer);
  }
}

bool Relay::whole(const Roll& roll, Roll::Await what) const {
  return std::ranges::none_of(below_, [&](int peer) { return roll.lacks(peer, what); });
}

std::vector<Relay::Letter> Relay::due(const Roll& roll) {
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
    if (own > told.parent && whole(roll, what)) {
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
