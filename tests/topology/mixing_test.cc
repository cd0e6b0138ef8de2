// Mixing by shares: exact averages as published, sums that stay the same, and known eigenvalues.
#include "sotto/topology/mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/topology/sample.h"

namespace sotto {
namespace {

using test::message_of;

Consensus of(const char* topology, int ranks, const char* mixing = "uniform") {
  const Topology made = make_topology(test::topology(topology), ranks);
  return consensus(made, *make_mixing(test::mixing(mixing), made));
}

constexpr std::size_t never = 0;
std::size_t exact_after(const char* topology, int ranks, const char* mixing = "uniform") {
  return of(topology, ranks, mixing).exact_after.value_or(never);
}

TEST(Consensus, IsExactAsPublished) {
  EXPECT_EQ(exact_after("5", 8), 3U);
  EXPECT_EQ(exact_after("5", 16), 4U);
  EXPECT_EQ(exact_after("exponential(2)", 9), 2U);
  EXPECT_EQ(exact_after("0", 8), 5U);
  EXPECT_EQ(exact_after("1", 8), 3U);
  EXPECT_EQ(exact_after("1", 16), 5U);
  EXPECT_EQ(exact_after("1", 6), never);
  EXPECT_EQ(exact_after("complete", 7), 1U);
  EXPECT_EQ(exact_after("hypercube(1)", 16), 4U);
  EXPECT_EQ(exact_after("hypercube", 16), never);
  EXPECT_EQ(exact_after("ring", 3), 1U);
  EXPECT_EQ(exact_after("ring", 8), never);
  EXPECT_EQ(exact_after("hosts(4)", 16), 4U);  // within hosts, 1 host on, within hosts, 2 hosts on
  EXPECT_EQ(exact_after("complete", 4, "self_weighted(0.25)"), 1U);
  EXPECT_EQ(exact_after("complete", 4, "self_weighted(0.3)"), never);
}

TEST(Consensus, OfOneRankIsThereFromTheStart) {
  const Consensus one = of("5", 1);
  EXPECT_EQ(one.exact_after, std::optional<std::size_t>(0));
  EXPECT_EQ(one.spectral_gap, 1);
}

TEST(Consensus, ShrinksDifferencesAsKnown) {
  // A ring mixes with shares of 1/3; its eigenvalues are (1 + 2 cos(2 pi k / W)) / 3.
  for (const int ranks : {4, 5, 8, 13}) {
    const double second = (1 + 2 * std::cos(2 * std::numbers::pi / ranks)) / 3;
    const double last = std::abs(1 + 2 * std::cos(2 * std::numbers::pi * (ranks / 2) / ranks)) / 3;
    EXPECT_NEAR(of("ring", ranks).spectral_gap, 1 - std::max(second, last), 1e-9) << ranks;
  }
  // The eigenvalues of a hypercube of d dimensions are (1 + d - 2 k) / (d + 1).
  EXPECT_NEAR(of("hypercube", 16).spectral_gap, 1 - 3.0 / 5, 1e-9);
  EXPECT_EQ(of("complete", 9).spectral_gap, 1);
  EXPECT_EQ(of("1", 8).spectral_gap, 1);
}

TEST(Consensus, SumsStayAndWeightsDoWhereGraphsAreRegular) {
  for (const TopologyEntry& entry : topology_table()) {
    for (const int ranks : {2, 4, 8, 16}) {
      if (entry.name == "random_regular" && ranks < 4) continue;
      const Topology topology = make_topology(test::topology(test::sample(entry, ranks)), ranks);
      for (const char* mixing : {"uniform", "metropolis", "self_weighted(0.4)"}) {
        if (mixing[0] == 'm' && !topology.symmetric()) continue;
        const auto made = make_mixing(test::mixing(mixing), topology);
        for (std::size_t i = 0; i < topology.period(); ++i) {
          const MixingMatrix matrix = MixingMatrix::of(topology.round(i), *made);
          for (int from = 0; from < ranks; ++from) {
            double sum = 0;
            for (int to = 0; to < ranks; ++to) {
              ASSERT_GE(matrix.at(to, from), 0);
              sum += matrix.at(to, from);
            }
            ASSERT_NEAR(sum, 1, 1e-12) << entry.name << ", " << mixing;
          }
          EXPECT_EQ(matrix.doubly_stochastic(), topology.regular() || mixing[0] == 'm') << entry.name << ", " << mixing;
        }
        EXPECT_EQ(doubly_stochastic(topology, *made), consensus(topology, *made).doubly_stochastic) << entry.name;
      }
    }
  }
}

TEST(Mixing, OfNeighboursThatDifferIsMetropolis) {
  const Topology star = make_topology(test::topology("star"), 4);
  const auto metropolis = make_mixing(test::mixing("metropolis"), star);
  const Shares hub = metropolis->shares(star.round(0), 0), leaf = metropolis->shares(star.round(0), 2);
  EXPECT_DOUBLE_EQ(hub.kept, 0.25);
  EXPECT_EQ(hub.sent, (std::vector{0.25, 0.25, 0.25}));
  EXPECT_DOUBLE_EQ(leaf.kept, 0.75);
  EXPECT_EQ(leaf.sent, std::vector{0.25});
  const auto uniform = make_mixing(test::mixing("uniform"), star);
  EXPECT_DOUBLE_EQ(uniform->shares(star.round(0), 2).kept, 0.5);
}

TEST(Mixing, SaysWhyItDoesNotSuit) {
  const Topology directed = make_topology(test::topology("0"), 8);
  const auto why = [&](const char* text) { return message_of([&] { make_mixing(test::mixing(text), directed); }); };
  EXPECT_NE(why("metropolis").find("directed_exponential"), std::string::npos) << why("metropolis");
  EXPECT_NE(why("uniformly").find("did you mean `uniform`"), std::string::npos);
  EXPECT_NE(why("self_weighted(1)").find("(0, 1)"), std::string::npos);
  EXPECT_NE(why("uniform | metropolis").find("single call"), std::string::npos);
}

}  // namespace
}  // namespace sotto
