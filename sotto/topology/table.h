#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sotto/core/examples.h"
#include "sotto/core/table.h"
#include "sotto/topology/topology.h"

namespace sotto {

// A line of the table of topologies. `id` is the number of the same graph in Stochastic Gradient Push; -1: none.
struct TopologyEntry {
  std::string_view name;
  int id;
  std::string_view summary;
  std::string_view paper;
  AnyOptions (*options)();
  // ConfigError when the topology does not exist for this number of ranks.
  Topology (*make)(const AnyOptions& options, int ranks);
};
const Table<TopologyEntry>& topology_table();

using TopologySpec = Spec<TopologyEntry>;

// Parses a user's text: one call, such as "exponential(peers=2)"; an id ("5" is "exponential"); or the path of a .toml
// file (given_graphs.h). `option` names the text in errors. ConfigError with a caret; FileError when the file cannot
// be read.
TopologySpec read_topology(std::string_view text, std::string_view option = "topology");

// ConfigError when the topology does not exist for this number of ranks.
Topology make_topology(const TopologySpec& spec, int ranks);

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
