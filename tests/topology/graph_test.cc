#include "sotto/topology/graph.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

using Offsets = std::vector<int>;

TEST(Offsets, AreThoseOfThePublishedGraphs) {
  EXPECT_EQ(exponential_offsets(8), (Offsets{1, 7, 2, 6, 4}));
  EXPECT_EQ(exponential_offsets(9), (Offsets{1, 8, 2, 7, 4, 5}));  // offset 8 is -1 again, so it is left out
  EXPECT_EQ(bipartite_offsets(8), (Offsets{1, 7, 3, 5}));
  EXPECT_EQ(linear_offsets(8), (Offsets{1, 7, 3, 5}));
  EXPECT_EQ(linear_offsets(6), (Offsets{1, 5, 3}));
  EXPECT_EQ(peer_offsets(8, 1), (Offsets{1, 2, 4}));
  EXPECT_EQ(peer_offsets(9, 2), (Offsets{1, 2, 3, 6}));
  EXPECT_EQ(peer_offsets(8, 3), (Offsets{1, 2, 3, 4}));  // offset 8 is 0, and 12 is 4 again, so both are left out
  EXPECT_EQ(peer_offsets(4, 3), (Offsets{1, 2, 3}));
}

TEST(Offsets, OfOneRankAreNone) {
  for (const auto& offsets : {exponential_offsets(1), bipartite_offsets(1), linear_offsets(1), peer_offsets(1, 2)}) {
    EXPECT_TRUE(offsets.empty());
  }
}

TEST(Offsets, AtPowersAreWhole) {  // a logarithm in floats may be a little too small there
  for (int n = 1; n <= 9; ++n) {
    int power = 1;
    for (int i = 0; i < 4; ++i, power *= n + 1) {
      const Offsets below = peer_offsets(power * (n + 1), n), above = peer_offsets(power * (n + 1) + 1, n);
      EXPECT_EQ(below.size(), static_cast<std::size_t>(n * (i + 1))) << n << ", " << i;
      EXPECT_EQ(above.back(), n == 1 ? power * 2 : above.back());
      EXPECT_GT(above.size(), below.size()) << n << ", " << i;
    }
  }
}

TEST(Graphs, OfPairsAreSymmetric) {
  const Graph graph = pairs(8, 3);
  EXPECT_TRUE(graph.symmetric() && graph.regular());
  EXPECT_EQ(graph.out(1), Offsets{4});
  EXPECT_EQ(graph.out(4), Offsets{1});
  EXPECT_EQ(graph.out(7), Offsets{2});
}

TEST(Graphs, OfATorusAreNeighbours) {
  const std::vector<Graph> graphs = torus(12, 3);
  Graph all(12);
  for (const Graph& graph : graphs) all.add(graph);
  EXPECT_EQ(all.out(0), (Offsets{1, 3, 4, 8}));
  EXPECT_EQ(all.out(7), (Offsets{4, 6, 11, 3}));
  EXPECT_TRUE(all.symmetric() && all.regular() && all.connected());
}

TEST(Graphs, ALineOfARingIsNotConnected) {
  Graph graph(3);
  graph.add(0, 1);
  graph.add(1, 2);
  EXPECT_FALSE(graph.connected());
  EXPECT_FALSE(graph.symmetric());
  graph.add(2, 0);
  EXPECT_TRUE(graph.connected());
  graph.add(2, 2);
  graph.add(2, 0);
  EXPECT_EQ(graph.out(2), Offsets{0});
}

TEST(Graphs, AtRandomAreRegularConnectedAndTheSameOfASeed) {
  for (const auto& [ranks, k] : {std::pair{4, 3}, {10, 3}, {16, 5}, {7, 2}, {64, 4}, {2, 1}}) {
    const Graph graph = random_regular(ranks, k, 5);
    EXPECT_TRUE(graph.symmetric() && graph.connected()) << ranks << ", " << k;
    for (int rank = 0; rank < ranks; ++rank) ASSERT_EQ(graph.out(rank).size(), static_cast<std::size_t>(k));
    EXPECT_EQ(graph, random_regular(ranks, k, 5));
  }
  EXPECT_NE(random_regular(16, 3, 1), random_regular(16, 3, 2));
}

TEST(Graphs, OfHostsStayWithinThemAndThenLeaveThem) {
  const std::vector<Graph> graphs = groups(12, 3);
  ASSERT_EQ(graphs.size(), 4U);  // four hosts: offsets of 1 and 2 hosts
  EXPECT_EQ(graphs[0].out(4), (Offsets{5, 3}));
  EXPECT_EQ(graphs[1].out(4), Offsets{7});
  EXPECT_EQ(graphs[2], graphs[0]);
  EXPECT_EQ(graphs[3].out(10), Offsets{4});
}

}  // namespace
}  // namespace sotto
