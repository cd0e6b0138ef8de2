#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sotto/comm/links.h"
#include "sotto/core/mutex.h"
#include "sotto/core/timer.h"

namespace sotto {

// The emulated links of one rank, and until when each is taken. Any thread may call it.
class Link {
 public:
  Link(const Links& links, int rank, int size);

  // When a message that is handed in at `now` has arrived at the other end. Its bytes leave one after the other behind
  // those of all that were handed in before, and pass the link to that rank behind those that went there; then they are
  // under way, for a time that is a function of seed, link and number of the message, but never overtake.
  Clock::time_point send(int to, std::size_t bytes, Clock::time_point now);
  // When a message whose last byte arrived at `arrived` has come in. One that arrives alone has, since its bytes came
  // while they were sent, unless that was faster than this rank can take them; one that comes together with others
  // waits for them.
  Clock::time_point receive(int from, std::size_t bytes, Clock::time_point arrived);

 private:
  struct Outgoing {
    LinkShape shape;
    std::uint64_t messages = 0;
    Clock::time_point passed{};   // the last byte has passed the link to this rank alone
    Clock::time_point arrived{};  // the last message
  };

  std::uint64_t seed_;
  int rank_;
  double egress_;
  double ingress_;
  std::vector<Outgoing> outgoing_ SOTTO_GUARDED_BY(mutex_);  // by rank
  std::vector<double> from_;                                 // how fast each sends to us
  Mutex mutex_;
  Clock::time_point sent_ SOTTO_GUARDED_BY(mutex_){};
  Clock::time_point received_ SOTTO_GUARDED_BY(mutex_){};
};

}  // namespace sotto
