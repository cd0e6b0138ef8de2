#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sotto/topology/table.h"

namespace sotto {

// A topology from a step, or an epoch, on.
struct TopologyPhase {
  std::uint64_t first = 0;
  TopologySpec topology;
};

// A text that says from which epoch on a rank has how many peers in a round: "0:1,10:2,30:4" (the
// peers_per_itr_schedule of Stochastic Gradient Push). `topology` with these in place of its own number, by epochs.
// ConfigError when it says something else, and where the topology has no such number, or cannot have this one with so
// many ranks.
std::vector<TopologyPhase> read_peer_schedule(std::string_view option, std::string_view text,
                                              const TopologySpec& topology, int ranks);

// The same by steps.
std::vector<TopologyPhase> by_steps(std::vector<TopologyPhase> epochs, std::uint64_t steps_per_epoch);

}  // namespace sotto
