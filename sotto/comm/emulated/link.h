#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sotto/comm/emulated/links.h"
#include "sotto/core/mutex.h"
#include "sotto/core/timer.h"

namespace sotto {

// The emulated links of one rank, and the time until which each is busy. Any thread may call any function.
class Link {
 public:
  Link(const Links& links, int rank, int size);

  // When a message that is handed in at `now` arrives at the other end. Its bytes leave after those of all earlier
  // messages, and pass the link to rank `to` after those of earlier messages to that rank. Then they take the latency,
  // whose jitter is a function of seed, link and message number; messages never overtake each other.
  Clock::time_point send(int to, std::size_t bytes, Clock::time_point now);
  // When a message whose last byte arrived at `arrived` is fully received. Its bytes came while they were sent, so it
  // is received at once if it came alone, unless they came faster than this rank can take them. Messages that come at
  // the same time share this rank's rate.
  Clock::time_point receive(int from, std::size_t bytes, Clock::time_point arrived);

 private:
  struct Outgoing {
    LinkShape shape;
    std::uint64_t messages = 0;
    Clock::time_point passed{};   // when the last byte has passed the link to that rank
    Clock::time_point arrived{};  // when the last message arrives
  };

  struct Span {
    Clock::time_point begin, end;
  };
  Clock::time_point take_in(Clock::time_point begin, Clock::duration needed) SOTTO_REQUIRES(mutex_);

  std::uint64_t seed_;
  int rank_;
  double egress_;
  double ingress_;
  std::vector<Outgoing> outgoing_ SOTTO_GUARDED_BY(mutex_);  // by rank
  std::vector<double> from_;                                 // each sender's rate towards this rank
  Mutex mutex_;
  Clock::time_point sent_ SOTTO_GUARDED_BY(mutex_){};
  std::vector<Span> busy_ SOTTO_GUARDED_BY(mutex_);  // when bytes came in, lately; in order of time
};

}  // namespace sotto
