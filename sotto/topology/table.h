#pragma once

#include <string_view>

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
// file (topology_file.h). `option` names the text in errors. ConfigError with a caret; FileError when the file cannot
// be read.
TopologySpec read_topology(std::string_view text, std::string_view option = "topology");

// ConfigError when the topology does not exist for this number of ranks.
Topology make_topology(const TopologySpec& spec, int ranks);

}  // namespace sotto
