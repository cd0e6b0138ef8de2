#pragma once

#include <cstdint>
#include <vector>

#include "sotto/topology/graph.h"

namespace sotto {

// The elementary graphs of topologies, in the order in which rounds take them. All of one rank alone are without edges.

// Every rank sends to the one `offset` further on.
Graph shift(int ranks, int offset);
// Ranks that differ in parity, in pairs: odd rank r and the one `offset` further on. REQUIRES an odd offset, and an
// even number of ranks.
Graph pairs(int ranks, int offset);

// Offsets modulo the ranks, in their order, 0 and what came before left out.
std::vector<int> distinct_offsets(int ranks, const std::vector<std::int64_t>& offsets);
// Of the published graphs: 1, -1, 2, -2, 4, -4 .. up to ranks - 1; 1, -1, 3, -3, 5, -5 .. likewise.
std::vector<int> exponential_offsets(int ranks);
std::vector<int> linear_offsets(int ranks);
// 1, -1, 1 + 2, -(1 + 2), 1 + 4, -(1 + 4) ..
std::vector<int> bipartite_offsets(int ranks);
// j (n + 1)^i for i = 0, 1 .. and j = 1 .. n.
std::vector<int> peer_offsets(int ranks, int n);

// Neighbours of a grid of `rows` rows whose ends meet, one direction after the other. REQUIRES whole rows.
std::vector<Graph> torus(int ranks, int rows);
// One dimension after the other. REQUIRES a power of two.
std::vector<Graph> hypercube(int ranks);
// Everybody with the first rank.
Graph star(int ranks);
// A connected graph in which every rank has k neighbours, each such graph about as likely as any other (Steger,
// Wormald, 1999). REQUIRES k < ranks, k ranks even, and k > 1 unless there are two ranks.
Graph random_regular(int ranks, int k, std::uint64_t seed);
// Two elementary rounds a distance: all ranks of a group of `size` with each other, then each with the rank of its
// place in the group 1, 2, 4 .. groups further on. REQUIRES whole groups.
std::vector<Graph> groups(int ranks, int size);

}  // namespace sotto
