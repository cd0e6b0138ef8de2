#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// An emulated link: every rank's egress and ingress carry `bits_per_second`, and each message takes `latency` seconds,
// plus up to `jitter` more.
struct LinkShape {
  double bits_per_second = 0;  // 0: unlimited
  double latency = 0;          // seconds
  double jitter = 0;           // seconds
};

// The links of a job: one shape for all, and the exceptions.
struct Links {
  struct Rank {
    double egress = 0, ingress = 0;  // bits per second
    double compute = 1;              // factor by which the rank's computing takes longer
    double delay = 0;                // additional seconds per step
  };

  LinkShape all;
  std::uint64_t seed = 1;                            // of jitter
  std::map<int, Rank> ranks{};                       // exceptions
  std::map<std::pair<int, int>, LinkShape> pairs{};  // by (from, to); the rate is for this direction alone
  std::string file{};                                // the text of the file, verbatim; empty: there was none

  Rank rank(int rank) const;
  LinkShape pair(int from, int to) const;
};

// Parses "100mbit", "1gbit,5ms", "20kbit, 200us" or "50ms": a rate (bit, kbit, mbit, gbit), a latency (us, ms, s) or
// both. ConfigError for anything else.
LinkShape parse_link(std::string_view option, std::string_view text);
// The same, or reads the TOML file (docs/transports.md) at this path, which ends in .toml. ConfigError names file, line
// and key. Ranks in the file are 0 .. size-1.
Links parse_links(std::string_view option, const std::string& text, int size);

// Parse a number above 0 with a unit, "100mbit" or "5ms", and return bits per second or seconds. ConfigError starts
// with `option`. `zero`: accepts 0 with a unit, too.
double parse_rate(std::string_view option, std::string_view text);
double parse_duration(std::string_view option, std::string_view text, bool zero = false);

// The emulated links of one rank, and the time until which each is busy. Any thread may call any function.
class Link {
 public:
  Link(const Links& links, int rank, int size);

  // Returns when a message that is handed in at `now` arrives at rank `to`. Its bytes leave this rank after those of
  // all earlier messages, and pass the link to `to` after those of earlier messages to `to`. Then the latency is added;
  // its jitter is a function of seed, link and message number. Messages never overtake each other.
  Clock::time_point send(int to, std::size_t bytes, Clock::time_point now);
  // Returns when this rank has received all of a message whose last byte arrived at `arrived`. Bytes are received while
  // they come: a message that came alone is received at `arrived`, unless it came faster than this rank can receive.
  // Messages that come at the same time share this rank's rate.
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
