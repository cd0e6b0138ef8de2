#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace sotto {

// An emulated link: every rank's egress and ingress carry `bits_per_second`, and each message is `latency` seconds
// under way, and up to `jitter` more.
struct LinkShape {
  double bits_per_second = 0;  // 0: unlimited
  double latency = 0;          // seconds
  double jitter = 0;           // seconds
};

// The links of a job: one shape for all, and what differs from it.
struct Links {
  struct Rank {
    double egress = 0, ingress = 0;  // bits a second
    double compute = 1;              // how many times as long as it does a rank computes
    double delay = 0;                // and how many seconds longer a step
  };

  LinkShape all;
  std::uint64_t seed = 1;                            // of jitter
  std::map<int, Rank> ranks{};                       // those that differ
  std::map<std::pair<int, int>, LinkShape> pairs{};  // from, to; their rate is that of this direction alone
  std::string file{};                                // what was read, word for word; empty: nothing was

  Rank rank(int rank) const;
  LinkShape pair(int from, int to) const;
};

// "100mbit", "1gbit,5ms", "20kbit, 200us", "50ms": a rate (bit, kbit, mbit, gbit), a latency (us, ms, s) or both;
// ConfigError.
LinkShape parse_link(std::string_view option, std::string_view text);
// The same, or the path of a TOML file (docs/design.md), which ends in .toml. ConfigError names file, line and key; a
// rank there is one of 0 .. size-1.
Links parse_links(std::string_view option, const std::string& text, int size);

// A number above 0 with a unit: "100mbit", "5ms". ConfigError begins with `option`. `zero`: 0 with a unit is taken,
// too.
double parse_rate(std::string_view option, std::string_view text);
double parse_duration(std::string_view option, std::string_view text, bool zero = false);

}  // namespace sotto
