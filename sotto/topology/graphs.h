#pragma once

#include <cstdint>
#include <vector>

#include "sotto/topology/graph.h"

namespace sotto {

// The elementary graphs that topologies consist of, in the order in which rounds take them. With one rank they have no
// edges.

// Every rank r sends to rank r + offset.
Graph shift(int ranks, int offset);
// Every odd rank r exchanges with the even rank r + offset. REQUIRES an odd offset and an even number of ranks.
Graph pairs(int ranks, int offset);

// The offsets modulo `ranks`, in the same order, without 0 and repetitions.
std::vector<int> distinct_offsets(int ranks, const std::vector<std::int64_t>& offsets);
// The offsets of the published graphs: 1, -1, 2, -2, 4, -4 .. and 1, -1, 3, -3, 5, -5 .., both up to ranks - 1.
std::vector<int> exponential_offsets(int ranks);
std::vector<int> linear_offsets(int ranks);
// 1, -1, 1 + 2, -(1 + 2), 1 + 4, -(1 + 4) ..
std::vector<int> bipartite_offsets(int ranks);
// j (n + 1)^i for i = 0, 1 .. and j = 1 .. n.
std::vector<int> peer_offsets(int ranks, int n);

// A grid of `rows` rows whose ends meet: one graph for each of the four directions. REQUIRES ranks % rows == 0.
std::vector<Graph> torus(int ranks, int rows);
// One graph for each dimension. REQUIRES a power of two.
std::vector<Graph> hypercube(int ranks);
// Every rank exchanges with rank 0.
Graph star(int ranks);
// A connected graph in which every rank has k neighbours, drawn about uniformly from all such graphs (Steger, Wormald,
// 1999). REQUIRES k < ranks, an even k * ranks, and k > 1 unless there are two ranks.
Graph random_regular(int ranks, int k, std::uint64_t seed);
// Two graphs for each distance d = 1, 2, 4 ..: in the first all ranks of a group of `size` exchange with each other; in
// the second every rank sends to the rank at its own place in the group d groups further on.
// REQUIRES ranks % size == 0.
std::vector<Graph> groups(int ranks, int size);

}  // namespace sotto
