#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A topology from a step on.
struct TopologyPhase {
  std::uint64_t first_step = 0;
  std::string topology;
};

// `schedule` says from which epoch on a rank has how many peers in a round: "0:1,10:2,30:4" (the
// peers_per_itr_schedule of Stochastic Gradient Push). The phases of `topology` with these in place of its own number.
// ConfigError, which begins with `where`, when it says something else, and where the topology has no such number, or
// cannot have this one with so many ranks.
std::vector<TopologyPhase> peer_phases(std::string_view where, std::string_view schedule, std::string_view topology,
                                       int ranks, std::uint64_t steps_per_epoch);

}  // namespace sotto
