// Gossip on vectors: mixing as the matrices say, sums that do not change, bytes equal to the formula, and failures that
// lose nothing.
#include "sotto/aggregate/gossiper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"
#include "tests/aggregate/group.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::sample_gradient;
using test::sample_layout;

struct Job {
  const char* topology;
  const char* mixing = "uniform";
  const char* codec = "none";
};

Gossiper make(const Job& job, int rank, int ranks) {
  const auto topology = std::make_shared<const Topology>(make_topology(test::topology(job.topology), ranks));
  return {read_recipe(job.codec), topology, make_mixing(test::mixing(job.mixing), *topology), sample_layout(), rank};
}

Key key_of(int rank, std::size_t round) {
  return {3, static_cast<std::uint16_t>(rank), 0, static_cast<std::uint32_t>(round)};
}

// What each rank holds after the rounds.
struct Ends {
  std::vector<std::vector<float>> values;
  std::vector<GossipNote> notes;
  std::vector<std::uint64_t> bytes;
};

Ends gossip(const Job& job, int ranks, std::size_t rounds) {
  const auto size = static_cast<std::size_t>(ranks);
  Ends ends{std::vector<std::vector<float>>(size), std::vector<GossipNote>(size), std::vector<std::uint64_t>(size)};
  run_threads(ranks, 30s, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto r = static_cast<std::size_t>(rank);
    Gossiper gossiper = make(job, rank, ranks);
    ends.values[r] = sample_gradient(sample_layout(), rank, 0);
    if (rank == ranks - 1) ends.notes[r].stop_step = 77;
    Timings timings;
    for (std::size_t round = 0; round < rounds; ++round) {
      gossiper.mix(ends.values[r], ends.notes[r], key_of(rank, round), communicator, timings);
    }
    ends.bytes[r] = communicator.traffic().bytes_sent;
  });
  return ends;
}

std::vector<double> sum_of(const std::vector<std::vector<float>>& all) {
  std::vector<double> sum(all.front().size());
  for (const auto& values : all) {
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

std::vector<double> sum_at_first(int ranks) {
  std::vector<std::vector<float>> all;
  all.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all.push_back(sample_gradient(sample_layout(), rank, 0));
  return sum_of(all);
}

class Gossip : public testing::TestWithParam<int> {};

TEST_P(Gossip, DoesWhatTheMatricesSay) {
  const int ranks = GetParam();
  const auto size = static_cast<std::size_t>(ranks);
  for (const Job& job : {Job{"exponential"},
                         {"exponential(2)"},
                         {"directed_exponential"},
                         {"ring"},
                         {"star"},
                         {"star", "metropolis"},
                         {"complete", "self_weighted(0.7)"}}) {
    constexpr std::size_t rounds = 5;
    const Ends ends = gossip(job, ranks, rounds);
    const Topology topology = make_topology(test::topology(job.topology), ranks);
    const auto mixing = make_mixing(test::mixing(job.mixing), topology);
    MixingMatrix product = MixingMatrix::identity(ranks);
    for (std::size_t i = 0; i < rounds; ++i) product = MixingMatrix::of(topology.round(i), *mixing) * product;
    for (int to = 0; to < ranks; ++to) {
      std::vector<double> wanted(sample_layout().size());
      double weight = 0;
      for (int from = 0; from < ranks; ++from) {
        const auto values = sample_gradient(sample_layout(), from, 0);
        for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += product.at(to, from) * values[i];
        weight += product.at(to, from);
      }
      const auto& found = ends.values[static_cast<std::size_t>(to)];
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5) << job.topology;
      EXPECT_NEAR(ends.notes[static_cast<std::size_t>(to)].weight, weight, 1e-12) << job.topology;
    }
    double weights = 0;
    for (const GossipNote& note : ends.notes) weights += note.weight;
    EXPECT_NEAR(weights, ranks, 1e-12 * static_cast<double>(size * rounds));
  }
}

TEST_P(Gossip, KeepsTheSumWhateverTheCodecRoundsOff) {
  const int ranks = GetParam();
  for (const char* codec : {"none", "f16", "bf16"}) {
    for (const char* topology : {"exponential", "star", "ring"}) {
      const auto sum = sum_of(gossip({topology, "uniform", codec}, ranks, 12).values);
      const auto wanted = sum_at_first(ranks);
      for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], wanted[i], 1e-5) << topology << ", " << codec;
    }
  }
}

TEST_P(Gossip, SendsAMessageToEachPeer) {
  const int ranks = GetParam();
  const std::size_t message = 32 + 4 * sample_layout().numel() + sizeof(GossipNote);
  for (const auto& [topology, peers] : {std::pair{"exponential", 1}, {"exponential(2)", 2}, {"ring", 2}}) {
    const Ends ends = gossip({topology}, ranks, 3);
    const auto each = static_cast<std::size_t>(std::min(peers, ranks - 1));
    for (const std::uint64_t bytes : ends.bytes) EXPECT_EQ(bytes, 3 * each * message) << topology << ", " << ranks;
  }
}

TEST_P(Gossip, TellsTheLeastToAll) {
  const int ranks = GetParam();
  for (const char* topology : {"exponential", "ring", "directed_linear", "star"}) {
    const Topology made = make_topology(test::topology(topology), ranks);
    const Ends ends = gossip({topology}, ranks, made.rounds_to_reach_all());
    for (const GossipNote& note : ends.notes) EXPECT_EQ(note.stop_step, 77U) << topology;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Gossip, testing::Values(1, 2, 3, 4, 7, 8));

TEST(Gossiping, AveragesExactlyAsPublished) {
  for (const auto& [topology, ranks, rounds] :
       {std::tuple{"5", 8, 3}, {"5", 4, 2}, {"exponential(2)", 9, 2}, {"0", 8, 5}, {"1", 8, 3}}) {
    const Ends ends = gossip({topology}, ranks, static_cast<std::size_t>(rounds));
    const auto sum = sum_at_first(ranks);
    for (const auto& values : ends.values) {
      for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(values[i], sum[i] / ranks, 1e-6) << topology;
    }
  }
}

TEST(Gossiping, WeightsMakeUpForUnevenNeighbours) {
  const Ends ends = gossip({"star"}, 5, 60);
  const auto sum = sum_at_first(5);
  EXPECT_GT(ends.notes[0].weight, 1.5);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_NEAR(ends.values[rank][i] / ends.notes[rank].weight, sum[i] / 5, 1e-5);
    }
  }
}

TEST(Gossiping, MayExchangeOnAnotherThread) {
  run_threads(4, 30s, [](Communicator& communicator) {
    Gossiper together = make({"ring"}, communicator.rank(), 4), apart = make({"ring"}, communicator.rank(), 4);
    auto a = sample_gradient(sample_layout(), communicator.rank(), 0), b = a;
    GossipNote x, y;
    Timings timings, other;
    for (std::size_t round = 0; round < 3; ++round) {
      together.mix(a, x, key_of(communicator.rank(), round), communicator, timings);
      apart.begin(b, y, key_of(communicator.rank(), round), timings);
      std::jthread([&] { apart.exchange(communicator, other); }).join();
      apart.finish(b, y, timings);
    }
    EXPECT_EQ(a, b);
  });
}

TEST(Gossiping, AFailedExchangeLosesNothing) {
  run_threads(2, 5s, [](Communicator& communicator) {
    const bool bad = communicator.rank() == 1;
    test::Spoilt broken(communicator, [&](int, std::span<Recv> arrived) {
      if (bad) arrived[0].buffer[40] ^= std::byte{1};
    });
    Gossiper gossiper = make({"ring"}, communicator.rank(), 2);
    const auto before = sample_gradient(sample_layout(), communicator.rank(), 0);
    auto values = before;
    GossipNote note{0.75, 5};
    Timings timings;
    const std::string error =
        message_of([&] { gossiper.mix(values, note, key_of(communicator.rank(), 4), broken, timings); });
    if (!bad) {
      EXPECT_EQ(error, "");
      return;
    }
    EXPECT_NE(error.find("rank 1: message of rank 0 at step 4"), std::string::npos) << error;
    EXPECT_EQ(note.weight, 0.75);
    EXPECT_EQ(note.stop_step, 5U);
    for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(values[i], before[i], 1e-6);
  });
}

TEST(Gossiping, RefusesAWeightThatIsNone) {
  run_threads(2, 5s, [](Communicator& communicator) {
    test::Spoilt broken(communicator,
                        [&](int, std::span<Recv> arrived) { std::ranges::fill(arrived[1].buffer, std::byte{0xff}); });
    Gossiper gossiper = make({"ring"}, communicator.rank(), 2);
    auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
    GossipNote note;
    Timings timings;
    EXPECT_NE(message_of([&] {
                gossiper.mix(values, note, key_of(communicator.rank(), 4), broken, timings);
              }).find("is no positive number"),
              std::string::npos);
  });
}

TEST(Gossiping, OfModelsRefusesWhatIsForGradients) {
  for (const char* codec : {"qsgd", "topk(0.1)", "int8", "sign", "ef | f16", "power(1)"}) {
    EXPECT_NE(message_of([&] {
                make({"ring", "uniform", codec}, 0, 2);
              }).find("models are exchanged"),
              std::string::npos)
        << codec;
  }
}

TEST(Gossiping, OfDifferencesWantsNoMemory) {
  EXPECT_NE(message_of([] {
              make_gossip_codec(read_recipe("ef | topk(0.1)"), Layout(), nullptr, Contract::Input::delta);
            }).find("what is left out is in the next difference"),
            std::string::npos);
}

TEST(Gossiping, WantsNoAggregatorBesideItsCodec) {
  const Recipe recipe = read_recipe("f16", "gather");
  for (const auto input : {Contract::Input::delta, Contract::Input::model}) {
    EXPECT_NE(message_of([&] { make_gossip_codec(recipe, Layout(), nullptr, input); }).find("used with it"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace sotto
