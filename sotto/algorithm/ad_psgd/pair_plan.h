#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/topology/topology.h"

namespace sotto {

// The peers that a rank asks, in turn; a rank without peers only answers. `every`: the rank asks at most once in
// `every` of its own steps; 0: it asks again as soon as it has an answer. `each`: all ranks make the same number of
// steps; otherwise as many as they can, and the sum over all ranks counts.
struct PairPlan {
  std::vector<int> peers;
  std::uint64_t every = 1;
  bool each = false;
};

// In each pair, the rank on the side of the topology without rank 0 asks; it asks the ranks that it sends to. REQUIRES
// a topology with two sides.
PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each = false);
// Why there is no such plan; empty if there is one.
std::string no_pairs(const Topology& topology);

}  // namespace sotto
