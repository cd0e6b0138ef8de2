#include "sotto/topology/topology.h"

#include <gtest/gtest.h>

#include "sotto/topology/table.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/topology/sample.h"

namespace sotto {
namespace {

using test::message_of;

TEST(Topologies, TakeTheNextPeersInEveryRound) {
  const Topology topology = make_topology(test::topology("exponential"), 8);
  EXPECT_EQ(topology.text(), "exponential(peers=1)");
  ASSERT_EQ(topology.period(), 3U);
  for (const auto& [round, offset] : {std::pair{0, 1}, {1, 2}, {2, 4}, {3, 1}, {100, 2}}) {
    for (int rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(topology.round(static_cast<std::size_t>(round)).out(rank), std::vector{(rank + offset) % 8});
    }
  }
  const Topology two = make_topology(test::topology("directed_exponential(2)"), 8);  // 1, 7, 2, 6, 4
  ASSERT_EQ(two.period(), 5U);
  EXPECT_EQ(two.round(2).out(0), (std::vector{4, 1}));
  EXPECT_EQ(make_topology(test::topology("directed_exponential(5)"), 8).period(), 1U);
  EXPECT_EQ(make_topology(test::topology("directed_exponential(9)"), 8).peers(), 5U);
}

TEST(Topologies, HaveNamesAndIds) {
  for (const char* id : {"0", "1", "2", "3", "4", "5"}) {
    const Topology topology = make_topology(test::topology(id), 8);
    const auto& entry = topology_table().begin()[*id - '0'];
    EXPECT_EQ(std::to_string(entry.id), id);
    EXPECT_TRUE(topology.text().starts_with(std::string(entry.name))) << topology.text();
  }
  EXPECT_NE(message_of([] { make_topology(test::topology("6"), 8); }).find("0 to 5"), std::string::npos);
  EXPECT_NE(message_of([] { make_topology(test::topology("rink"), 8); }).find("did you mean `ring`"),
            std::string::npos);
}

TEST(Topologies, OfOneRankHaveNoEdges) {
  for (const TopologyEntry& entry : topology_table()) {
    const std::string text = test::sample(entry, 1);
    const Topology topology = make_topology(test::topology(text), 1);
    EXPECT_TRUE(topology.round(0).out(0).empty()) << text;
    EXPECT_TRUE(topology.symmetric() && topology.regular() && topology.connected()) << text;
  }
}

TEST(Topologies, HaveARank) {
  for (const TopologyEntry& entry : topology_table()) {
    for (const int ranks : {0, -3}) {
      const auto spec = test::topology(test::sample(entry, 1));
      EXPECT_NE(message_of([&] { make_topology(spec, ranks); }).find("at least one"), std::string::npos) << entry.name;
    }
  }
}

TEST(Topologies, ReachEveryRankAndComeAgainFromTheirText) {
  for (const TopologyEntry& entry : topology_table()) {
    for (int ranks = 2; ranks <= 16; ++ranks) {
      const std::string text = test::sample(entry, ranks);
      std::string error;
      try {
        const Topology topology = make_topology(test::topology(text), ranks);
        EXPECT_TRUE(topology.connected()) << text << ", " << ranks;
        const Topology again = make_topology(test::topology(topology.text()), ranks);
        ASSERT_EQ(again.period(), topology.period());
        for (std::size_t i = 0; i < topology.period(); ++i) EXPECT_EQ(again.round(i), topology.round(i));
      } catch (const ConfigError& refused) {
        error = refused.what();
      }
      const bool odd = ranks % 2 != 0;
      const bool refused = entry.name.starts_with("bipartite") || entry.name == "hosts" ? odd
                           : entry.name == "hypercube"                                  ? (ranks & (ranks - 1)) != 0
                           : entry.name == "random_regular"                             ? odd || ranks <= 3
                                                                                        : false;
      EXPECT_EQ(!error.empty(), refused) << text << ", " << ranks << ": " << error;
    }
  }
}

TEST(Topologies, SpreadWhatARankSays) {
  for (const auto& [text, ranks, rounds] : {std::tuple{"exponential", 8, 3},
                                            {"ring", 8, 4},
                                            {"complete", 8, 1},
                                            {"star", 8, 2},
                                            {"exponential", 1, 0},
                                            {"hypercube", 16, 4},
                                            {"torus", 70, 8},  // more ranks than bits in a word
                                            {"ring", 1024, 512}}) {
    EXPECT_EQ(make_topology(test::topology(text), ranks).rounds_to_reach_all(), static_cast<std::size_t>(rounds))
        << text;
  }
}

TEST(Topologies, OfPairsAreBipartite) {
  for (const char* text : {"1", "3", "ring", "directed_linear"}) {
    EXPECT_TRUE(make_topology(test::topology(text), 8).bipartite()) << text;
  }
  for (const char* text : {"star", "hypercube", "torus(rows=2)"}) {
    EXPECT_TRUE(make_topology(test::topology(text), 8).bipartite()) << text;
  }
  EXPECT_EQ(make_topology(test::topology("1"), 6).sides(), (std::vector{false, true, false, true, false, true}));
  EXPECT_EQ(make_topology(test::topology("star"), 3).sides(), (std::vector{false, true, true}));
  EXPECT_EQ(make_topology(test::topology("1"), 1).sides(), std::vector{false});
  EXPECT_FALSE(make_topology(test::topology("complete"), 3).bipartite());
  EXPECT_FALSE(make_topology(test::topology("exponential"), 8).bipartite());
  EXPECT_FALSE(make_topology(test::topology("ring"), 7).bipartite());
  EXPECT_TRUE(make_topology(test::topology("1"), 8).symmetric());
  EXPECT_FALSE(make_topology(test::topology("0"), 8).symmetric());
  EXPECT_TRUE(make_topology(test::topology("ring"), 8).symmetric());
  EXPECT_FALSE(make_topology(test::topology("star"), 8).regular());
}

TEST(Topologies, SayWhyThereIsNone) {
  const auto why = [](const char* text, int ranks) {
    return message_of([&] { make_topology(test::topology(text), ranks); });
  };
  EXPECT_NE(why("1", 7).find("no even number"), std::string::npos) << why("1", 7);
  EXPECT_NE(why("torus(rows=3)", 8).find("whole rows"), std::string::npos);
  EXPECT_NE(why("hypercube", 6).find("power of two"), std::string::npos);
  EXPECT_NE(why("random_regular(3)", 5).find("even"), std::string::npos);
  EXPECT_NE(why("random_regular(8)", 8).find("below the number of ranks"), std::string::npos);
  EXPECT_NE(why("random_regular(1)", 4).find("at least 2"), std::string::npos);
  EXPECT_NE(why("hosts", 8).find("hosts(4)"), std::string::npos);
  EXPECT_NE(why("hosts(3)", 8).find("whole hosts"), std::string::npos);
  EXPECT_NE(why("exponential(0)", 8).find("at least 1"), std::string::npos);
  EXPECT_NE(why("ring | ring", 8).find("single call"), std::string::npos);
  EXPECT_NE(why("ring(peers=-1)", 8).find("peers"), std::string::npos);
}

TEST(PeerSchedules, ChangeTheNumberOfPeersFromAnEpochOn) {
  const auto phases = read_peer_schedule("test", "0:1,3:2,10:4", test::topology("5"), 8);
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].first, 0U);
  EXPECT_EQ(phases[0].topology.text(), "exponential(peers=1)");
  EXPECT_EQ(phases[1].first, 3U);
  EXPECT_EQ(phases[1].topology.text(), "exponential(peers=2)");
  EXPECT_EQ(phases[2].first, 10U);
  EXPECT_EQ(phases[2].topology.text(), "exponential(peers=4)");
  EXPECT_EQ(read_peer_schedule("test", "0:3", test::topology("torus(rows=2)"), 8)[0].topology.text(),
            "torus(rows=2, peers=3)");
  EXPECT_EQ(by_steps(phases, {100})[2].first, 1000U);
  EXPECT_EQ(by_steps(phases, {5, 3})[2].first, 17U) << "of three of an epoch's five batches";
  EXPECT_EQ(by_steps(phases, {UINT64_MAX / 2})[2].first, UINT64_MAX) << "never";
}

TEST(PeerSchedules, SayWhatIsWrong) {
  const auto why = [](const char* schedule, const char* topology = "exponential") {
    return message_of([&] { read_peer_schedule("peers-per-step", schedule, test::topology(topology), 8); });
  };
  for (const char* bad : {"", "1", "0", "0:", ":1", "0:0", "1:1", "0:1,", "0:1,0:2", "0:1,5:2,4:3", "0:1;2:3", "0:-1",
                          "0:1 ", "0:99999999999999999999", "0:1,1000000000001:2"}) {
    EXPECT_NE(why(bad).find("as in 0:1,10:2"), std::string::npos) << bad << ": " << why(bad);
    EXPECT_EQ(why(bad).find("peers-per-step"), 0U) << why(bad);
  }
  EXPECT_NE(why("0:1,1:2", "star").find("always has the same peers"), std::string::npos);
  EXPECT_NE(why("0:1,1:99", "exponential").find("each has 7 peers, not 99"), std::string::npos)
      << why("0:99", "exponential");
  EXPECT_NE(why("0:1", "rign").find("did you mean `ring`"), std::string::npos);
}

}  // namespace

}  // namespace sotto
