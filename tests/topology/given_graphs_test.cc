#include "sotto/topology/given_graphs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sotto/topology/given_graphs.h"
#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using test::message_of;

TEST(GivenTopologies, SendToWhomTheTextSays) {
  const Topology topology = make_topology(test::topology("graph(1 2; 0; 0)"), 3);
  EXPECT_EQ(topology.text(), "graph(sends_to=1 2; 0; 0)");
  EXPECT_TRUE(topology.is_static() && topology.symmetric() && !topology.has_shares());
  EXPECT_EQ(topology.round(0).out(0), (std::vector{1, 2}));
  EXPECT_EQ(topology.round(0).out(2), (std::vector{0}));
  EXPECT_EQ(make_topology(test::topology(topology.text()), 3).round(0), topology.round(0));
  EXPECT_EQ(make_mixing({}, topology)->text(), "uniform");
}

TEST(GivenTopologies, HaveRoundsThatTakeTurns) {
  const Topology topology = make_topology(test::topology("graph(1; ; / ; 2; / ; ; 0)"), 3);
  ASSERT_EQ(topology.period(), 3U);
  EXPECT_EQ(topology.round(1).out(1), std::vector{2});
  EXPECT_TRUE(topology.round(2).out(1).empty());
  EXPECT_EQ(topology.rounds_to_reach_all(), 4U);
  EXPECT_EQ(make_topology(test::topology(topology.text()), 3).period(), 3U);
}

TEST(GivenTopologies, AreWhatTheSameOneOfTheTableIs) {
  const Topology ring = make_topology(test::topology("ring"), 5);
  std::vector<Graph> rounds{ring.round(0)};
  const Topology given = given_topology(rounds);
  EXPECT_EQ(given.round(0), ring.round(0));
  EXPECT_EQ(consensus(given, *make_mixing({}, given)).spectral_gap,
            consensus(ring, *make_mixing(test::mixing("uniform"), ring)).spectral_gap);
}

TEST(GivenTopologies, HaveTheSameRanksInAllRounds) {
  std::vector<Graph> rounds = given_graphs("1; 0", 2);
  rounds.push_back(given_graphs("1; 2; 0", 3).front());
  EXPECT_EQ(message_of([&] { given_topology(rounds); }), "round 0 is one of 2 ranks, and round 1 one of 3");
}

TEST(GivenTopologies, MixWithTheirOwnShares) {
  const Topology topology = make_topology(test::topology("graph(1:0.25 2:0.25; 0:0.5; 0:0.125)"), 3);
  ASSERT_TRUE(topology.has_shares());
  const auto mixing = make_mixing({}, topology);
  EXPECT_EQ(mixing->text(), "given");
  const MixingMatrix matrix = MixingMatrix::of(topology.round(0), *mixing);
  const double expected[3][3] = {{0.5, 0.5, 0.125}, {0.25, 0.5, 0}, {0.25, 0, 0.875}};
  for (int to = 0; to < 3; ++to) {
    for (int from = 0; from < 3; ++from) EXPECT_EQ(matrix.at(to, from), expected[to][from]) << to << from;
  }
  EXPECT_EQ(make_mixing(test::mixing("uniform"), topology)->text(), "uniform");  // a user may still ask for it
  EXPECT_NE(message_of([] {
              make_mixing(test::mixing("given"), make_topology(test::topology("ring"), 3));
            }).find("say their shares"),
            std::string::npos);
}

TEST(GivenTopologies, AreRefusedWithAReason) {
  for (const auto& [text, reason] : {std::pair{"graph(1; 0)", "each of 2 ranks, and there are 3"},
                                     {"graph(1; 2; 3)", "must be in [0, 2]"},
                                     {"graph(1; 2; x)", "a rank that rank 2 sends to"},
                                     {"graph(0 1; 2; 0)", "sends to itself"},
                                     {"graph(1 1; 2; 0)", "twice"},
                                     {"graph(1; 0; )", "never reaches"},
                                     {"graph(1; 2; )", "never reaches"},
                                     {"graph(1:0.5; 2; 0)", "say the share of each"},
                                     {"graph(1:0.5; 2:0.5; 0:0.5 / 1; 2; 0)", "some rounds"},
                                     {"graph(1:0.5 2:0.5; 2:0.5; 0:0.5)", "must keep a share"},
                                     {"graph(1:-1; 2:0.5; 0:0.5)", "must be in (0, 1)"},
                                     {"graph", "each of 1 ranks, and there are 3"}}) {
    const std::string message = message_of([&text = text] { make_topology(test::topology(text), 3); });
    EXPECT_NE(message.find(reason), std::string::npos) << text << ": " << message;
  }
}

TEST(GivenTopologies, HaveARoundWithARank) {
  for (const std::vector<Graph>& rounds : {std::vector<Graph>(), {Graph(0)}}) {
    EXPECT_NE(message_of([&] { given_topology(rounds); }).find("needs at least one round"), std::string::npos);
  }
}

class TopologyFiles : public testing::Test {
 protected:
  std::string written(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  ~TopologyFiles() override { std::filesystem::remove(path_); }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("sotto-topology-" + std::to_string(::getpid()) + ".toml")).string();
};

TEST_F(TopologyFiles, SayRoundsAndMatrices) {
  EXPECT_EQ(make_topology(test::topology(written("[[round]]\nsends_to = [[1, 2], [0], [0]]\n")), 3).text(),
            "graph(sends_to=1 2; 0; 0)");
  EXPECT_EQ(make_topology(test::topology(written("[[round]]\nsends_to = [[1], [], []]\n"
                                                 "[[round]]\nsends_to = [[], [2], []]\n"
                                                 "[[round]]\nsends_to = [[], [], [0]]\n")),
                          3)
                .period(),
            3U);
  EXPECT_EQ(make_topology(test::topology(written("[[round]]\nmatrix = [[0.5, 0.5, 0.125], [0.25, 0.5, 0], "
                                                 "[0.25, 0, 0.875]]\n")),
                          3)
                .text(),
            "graph(sends_to=1:0.25 2:0.25; 0:0.5; 0:0.125)");
}

TEST_F(TopologyFiles, AreRefusedWithTheirLine) {
  for (const auto& [text, reason] : {std::pair{"", "[[round]] is missing"},
                                     {"round = []\n", "there is no round"},
                                     {"[[round]]\n", ":1: a round has one of"},
                                     {"\n[[round]]\nsends_to = [[1], [0]]\nmatrix = [[1]]\n", ":2: a round has one of"},
                                     {"[[round]]\nsend_to = [[1], [0]]\n", "did you mean `sends_to`"},
                                     {"[[round]]\nsends_to = [[1], [0.5]]\n", ":2: a rank must be a whole number"},
                                     {"[[round]]\nsends_to = [1, 0]\n", "a list of ranks must be a list"},
                                     {"[[round]]\nmatrix = [[0.5, 0.5]]\n", "so many shares belong here"},
                                     {"[[round]]\nmatrix = [[0.5, 0.5], [0.5, 0.25]]\n", "column 1 adds up to 0.75"},
                                     {"[[round]]\nmatrix = [[2, 0.5], [-1, 0.5]]\n", "from 0 to 1"},
                                     {"[[round\n", ":1:"}}) {
    const std::string path = written(text);
    const std::string message = message_of([&] { test::topology(path); });
    EXPECT_TRUE(message.starts_with("topology " + path)) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << text << ": " << message;
  }
  EXPECT_NE(message_of([] { test::topology("/nowhere/own.toml"); }), "");
}

}  // namespace
}  // namespace sotto
