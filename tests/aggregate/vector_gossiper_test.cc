// VectorGossiper on a user's own vector gives the numbers of the Gossiper, in each round, to the last bit.
#include "sotto/aggregate/vector_gossiper.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "sotto/core/state.h"
#include "sotto/topology/given_graphs.h"
#include "sotto/topology/table.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;

Topology topology_of(const char* text, int ranks) { return make_topology(read_topology(text), ranks); }

std::unique_ptr<Mixing> uniform(const Topology& topology) { return make_mixing(read_mixing("uniform"), topology); }

std::vector<float> vector_of(int rank, std::size_t size = 300) {
  return test::sample_gradient(Layout({{"vector", 0, {static_cast<std::int64_t>(size)}}}, size), rank, 0);
}

TEST(VectorGossip, HasTheBitsOfTheGossiper) {
  for (const char* text : {"exponential", "ring", "star", "directed_linear"}) {
    for (const int ranks : {1, 2, 5, 8}) {
      run_threads(ranks, 30s, [&](Communicator& communicator) {
        VectorGossiper gossiper(communicator, topology_of(text, ranks), {.codec = read_recipe("f16"), .seed = 3});
        const auto topology = std::make_shared<const Topology>(topology_of(text, ranks));
        Gossiper reference(read_recipe("f16"), topology, uniform(*topology), Layout({{"vector", 0, {300}}}, 300),
                           communicator.rank());
        auto found = vector_of(communicator.rank()), wanted = found;
        GossipNote note;
        Timings timings;
        for (std::uint32_t round = 0; round < 4; ++round) {
          reference.mix(wanted, note, {3, static_cast<std::uint16_t>(communicator.rank()), 0, round}, communicator,
                        timings);
        }
        gossiper.average(found, 4);
        for (float& value : wanted) {
          value = note.weight == 1 ? value : static_cast<float>(value / note.weight);
        }
        EXPECT_EQ(found, wanted) << text << ", " << ranks;
        EXPECT_EQ(gossiper.round(), 4U);
      });
    }
  }
}

TEST(VectorGossip, FindsTheMeanAlsoBetweenUnevenNeighbours) {
  constexpr int ranks = 5;
  run_threads(ranks, 30s, [&](Communicator& communicator) {
    VectorGossiper gossiper(communicator, topology_of("star", ranks), {.mixing = uniform(topology_of("star", ranks))});
    std::vector<float> vector(10, static_cast<float>(communicator.rank()));
    gossiper.average(vector, 60);
    for (const float value : vector) EXPECT_NEAR(value, 2, 1e-5);
  });
}

TEST(VectorGossip, TakesVectorsOfSeveralSizes) {
  run_threads(4, 30s, [](Communicator& communicator) {
    VectorGossiper gossiper(communicator, topology_of("exponential", 4));
    for (const std::size_t size : {5, 1000, 5, 0}) {
      std::vector<float> vector(size, static_cast<float>(communicator.rank()));
      gossiper.average(vector, 2);
      for (const float value : vector) EXPECT_EQ(value, 1.5F);
    }
    EXPECT_EQ(gossiper.round(), 8U);
  });
}

TEST(VectorGossip, KeepsAWeightFromRoundToRound) {
  run_threads(3, 30s, [](Communicator& communicator) {
    VectorGossiper apart(communicator, topology_of("star", 3), {.mixing = uniform(topology_of("star", 3))});
    std::vector<float> vector(10, static_cast<float>(communicator.rank()));
    double weight = 1;
    for (int round = 0; round < 40; ++round) weight = apart.mix(vector, weight);
    EXPECT_NE(weight, 1);
    for (const float value : vector) EXPECT_NEAR(value / weight, 1, 1e-5);
  });
}

TEST(VectorGossip, GoesOnWithTheRoundOfACheckpoint) {
  run_threads(5, 30s, [](Communicator& communicator) {
    const Topology topology = topology_of("exponential", 5);
    VectorGossiper undisturbed(communicator, topology);
    std::vector<float> wanted(10, static_cast<float>(communicator.rank()));
    undisturbed.average(wanted, 1);
    undisturbed.average(wanted, 3);

    VectorGossiper before(communicator, topology), after(communicator, topology);
    std::vector<float> found(10, static_cast<float>(communicator.rank()));
    before.average(found, 1);
    StateCopy state;
    state.take();
    before.visit_state(state);
    state.give();
    after.visit_state(state);
    after.average(found, 3);
    EXPECT_EQ(found, wanted);
    EXPECT_EQ(after.round(), 4U);
  });
}

// Rank 2 leaves after one round, in which weights change: what the others keep is divided by theirs.
TEST(VectorGossip, DividesByTheWeightWhenARoundFails) {
  const Topology uneven = given_topology(given_graphs("1:0.3 2:0.3; 0:0.5; 0:0.5", 3));
  run_threads(3, 30s, [&](Communicator& communicator) {
    VectorGossiper gossiper(communicator, uneven);
    std::vector<float> vector(8, 5);
    if (communicator.rank() == 2) return gossiper.average(vector, 1);
    EXPECT_NE(message_of([&] { gossiper.average(vector, 3); }), "");
    for (const float value : vector) EXPECT_NEAR(value, 5, 1e-5);
  });
}

TEST(VectorGossip, RefusesWhatDoesNotFit) {
  run_threads(2, 30s, [](Communicator& communicator) {
    const auto refusal = [&](int ranks, const char* codec) {
      return message_of(
          [&] { VectorGossiper(communicator, topology_of("ring", ranks), {.codec = read_recipe(codec)}); });
    };
    EXPECT_EQ(refusal(3, "none"), "the topology is one of 3 ranks, and there are 2");
    EXPECT_NE(refusal(2, "topk(0.1)").find("models are exchanged"), std::string::npos);
    VectorGossiper gossiper(communicator, topology_of("ring", 2));
    std::vector<float> vector(3);
    EXPECT_THROW(gossiper.average(vector, -1), std::invalid_argument);
    EXPECT_THROW(gossiper.mix(vector, 0), std::invalid_argument);
  });
}

}  // namespace
}  // namespace sotto
