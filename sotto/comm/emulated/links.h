#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

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
// both. ConfigError.
LinkShape parse_link(std::string_view option, std::string_view text);
// The same, or reads the TOML file (docs/transports.md) at this path, which ends in .toml. ConfigError names file, line
// and key. Ranks in the file are 0 .. size-1.
Links parse_links(std::string_view option, const std::string& text, int size);

// Parse a number above 0 with a unit, "100mbit" or "5ms", and return bits per second or seconds. ConfigError starts
// with `option`. `zero`: accepts 0 with a unit, too.
double parse_rate(std::string_view option, std::string_view text);
double parse_duration(std::string_view option, std::string_view text, bool zero = false);

}  // namespace sotto
