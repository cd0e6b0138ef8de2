#pragma once

#include <string_view>
#include <vector>

#include "sotto/topology/topology.h"

namespace sotto {

// Topologies of a user's own. Their text has a list for each rank, of the ranks that it sends to: "1 2; 0; 0". With
// shares ("1:0.25 2:0.25; 0:0.5; 0:0.5") a rank keeps what they leave of 1. Rounds that take turns stand with " / "
// between them.

// The rounds of such a text, for so many ranks. ConfigError, without a place, when it is none.
std::vector<Graph> given_graphs(std::string_view text, int ranks);

// The topology whose rounds take turns; its sentence is "graph(sends_to=...)". ConfigError when a rank keeps no share
// of what it holds, some edges alone have a share, or what one rank holds never reaches another.
Topology given_topology(std::vector<Graph> rounds);

}  // namespace sotto
