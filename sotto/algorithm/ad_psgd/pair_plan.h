#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/topology/topology.h"

namespace sotto {

// Whom a rank asks, in turn; nobody: it answers. `every`: own steps from one request to the next at least; 0: a request
// follows as soon as the one before came back. `each`: all ranks make the same number of steps; otherwise as many as
// they can, and the number of all together counts.
struct PairPlan {
  std::vector<int> peers;
  std::uint64_t every = 1;
  bool each = false;
};

// The ranks of one side of the topology, not that of rank 0, ask those that they send to in it. REQUIRES sides.
PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each = false);
// Why there is no such plan; empty: there is.
std::string no_pairs(const Topology& topology);

}  // namespace sotto
