#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sotto/core/epoch_length.h"
#include "sotto/topology/table.h"

namespace sotto {

// A topology and when it begins.
struct TopologyPhase {
  std::uint64_t first = 0;  // a step or an epoch
  TopologySpec topology;
};

// Reads pairs "epoch:peers", such as "0:1,10:2,30:4" (the peers_per_itr_schedule of Stochastic Gradient Push): from
// that epoch on, each round takes that many peers. Returns `topology` with its `peers` replaced, one phase for each
// pair. ConfigError when the text is malformed, the topology has no option `peers`, or it cannot have this many.
std::vector<TopologyPhase> read_peer_schedule(std::string_view option, std::string_view text,
                                              const TopologySpec& topology, int ranks);

// The same phases with `first` converted from epochs to steps.
std::vector<TopologyPhase> by_steps(std::vector<TopologyPhase> epochs, const EpochLength& epoch);

}  // namespace sotto
