// Gossip whose group of ranks changes: a lost rank takes only its own share along, and nobody's model counts twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <thread>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

struct Gossip {
  const char* algorithm;
  const char* topology;
  const char* mixing = "uniform";
  const char* codec = "none";
  // The mean model takes steps of gradient descent: the mixing is doubly stochastic, and all mass takes part in each
  // step.
  bool keeps_mean = true;
  const char* later = nullptr;  // the topology from step 3 on
};
constexpr Gossip gossips[] = {
    {"push_sum", "exponential"},
    {"push_sum", "star", "uniform", "f16", false},
    {"push_sum(overlap=true)", "directed_exponential", "uniform", "none"},
    {"push_sum(overlap=true, synch_freq=3)", "exponential", "uniform", "none", false},
    {"d_psgd", "ring"},
    {"d_psgd", "star", "metropolis", "f16"},
    {"choco", "ring", "uniform", "topk(0.4)"},
    {"choco", "star", "metropolis", "qsgd(bits=4)"},
    {"choco", "star", "uniform", "topk(0.4)", false},
};

AlgorithmOptions options_of(const Gossip& gossip) {
  AlgorithmOptions options{.phases = test::read_phases(gossip.codec),
                           .topology = test::topology(gossip.topology),
                           .mixing = test::mixing(gossip.mixing)};
  if (gossip.later != nullptr) options.topologies = {{0, options.topology}, {3, test::topology(gossip.later)}};
  return options;
}

// What a rank remembers after some steps.
struct Left {
  test::Store state;
  std::vector<float> parameters;

  std::vector<double> mass() const {
    std::vector<double> sum(parameters.size());
    bool any = false;
    for (const auto& [name, values] : state.floats) {
      if (!name.ends_with(".x") && !name.ends_with(".arriving")) continue;
      any = true;
      std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    }
    if (!any) sum.assign(parameters.begin(), parameters.end());
    return sum;
  }
  double weight() const {
    double sum = 0;
    bool any = false;
    for (const auto& [name, value] : state.numbers) {
      if (!name.ends_with("weight")) continue;
      any = true;
      sum += std::bit_cast<double>(value);
    }
    return any ? sum : 1;
  }
};

std::vector<Left> leave(const Gossip& gossip, int ranks, std::uint64_t steps) {
  std::vector<Left> left(static_cast<std::size_t>(ranks));
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto made =
        make_algorithm(test::algorithm(gossip.algorithm), options_of(gossip), worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < steps; ++step) made->step(worker, {step, 0.05, false});
    made->drain();
    Left& own = left[static_cast<std::size_t>(communicator.rank())];
    made->visit_state(own.state);
    own.state.reading = true;
    own.parameters.assign(worker.parameters().begin(), worker.parameters().end());
  });
  return left;
}

std::vector<double> mean_of(const std::vector<Left>& left) {
  std::vector<double> sum(left.front().parameters.size());
  double weight = 0;
  for (const Left& one : left) {
    std::ranges::transform(sum, one.mass(), sum.begin(), std::plus<>());
    weight += one.weight();
  }
  for (double& value : sum) value /= weight;
  return sum;
}

class GossipGroups : public testing::TestWithParam<int> {};

// Rank 1 is lost, and another one comes, which gets its number.
TEST_P(GossipGroups, GoOnFromTheMeanOfThoseThatAreLeft) {
  const int ranks = GetParam();
  for (const Gossip& gossip : gossips) {
    SCOPED_TRACE(testing::Message() << gossip.algorithm << ", " << gossip.topology << ", " << gossip.codec);
    std::vector<Left> left = leave(gossip, ranks, 7);
    left.erase(left.begin() + 1);
    const std::vector<double> wanted = mean_of(left);
    left.insert(left.begin() + 1, Left{});
    const auto count = static_cast<std::size_t>(ranks);
    std::vector<std::vector<float>> begins(count), ends(count);
    constexpr double lr = 0.05;
    constexpr int steps = 12;
    run_threads(ranks, 60s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      Quadratic worker(communicator.rank(), "sgd(momentum=0)");
      const auto made =
          make_algorithm(test::algorithm(gossip.algorithm), options_of(gossip), worker.buckets(), communicator);
      Left& own = left[rank];
      const bool is_new = own.parameters.empty();
      made->enter(7);
      made->elastic()->visit_shared(left.front().state);
      if (!is_new) {
        std::ranges::copy(own.parameters, worker.parameters().begin());
        const FormerRank self{static_cast<int>(rank), ranks, &own.state};
        made->elastic()->take_over({&self, 1});
      } else {
        std::ranges::fill(worker.parameters(), 99.0F);  // its own do not count
      }
      made->elastic()->sync_after_change(worker, is_new);
      begins[rank].assign(worker.parameters().begin(), worker.parameters().end());
      for (std::uint64_t step = 7; step < 7 + steps; ++step) made->step(worker, {step, lr, false});
      made->drain();
      made->average_models(worker);
      ends[rank].assign(worker.parameters().begin(), worker.parameters().end());
    });
    const double target = (ranks + 1) / 2.0, left_over = std::pow(1 - lr, steps);
    for (const std::size_t i : {0U, 19U, 32U, 48U}) {  // between segments there is padding
      for (std::size_t r = 0; r < count; ++r) {
        ASSERT_EQ(begins[r][i], begins[0][i]) << "rank " << r << ", " << i;
        ASSERT_NEAR(begins[r][i], wanted[i], 1e-6 * ranks) << "rank " << r << ", " << i;
        if (gossip.keeps_mean) {
          ASSERT_NEAR(ends[r][i], target + (wanted[i] - target) * left_over, 2e-5 * ranks) << i;
        }
      }
    }
  }
}

// As from a checkpoint, each rank of a smaller group reads what all former ranks wrote.
TEST_P(GossipGroups, OfAnotherNumberGoOnFromTheMean) {
  const int ranks = GetParam();
  for (const Gossip& gossip : gossips) {
    SCOPED_TRACE(testing::Message() << gossip.algorithm << ", " << gossip.topology << ", " << gossip.codec);
    std::vector<Left> left = leave(gossip, ranks, 5);
    const std::vector<double> wanted = mean_of(left);
    std::vector<std::vector<float>> found(2);
    run_threads(2, 60s, [&](Communicator& communicator) {
      std::vector<Left> own = left;
      std::vector<FormerRank> each;
      for (Left& one : own) each.push_back({static_cast<int>(each.size()), ranks, &one.state});
      Quadratic worker(communicator.rank());
      if (std::string_view(gossip.algorithm) == "d_psgd") {  // the trainer takes its models from the checkpoint
        std::ranges::transform(wanted, worker.parameters().begin(), [](double x) { return static_cast<float>(x); });
      }
      const auto made =
          make_algorithm(test::algorithm(gossip.algorithm), options_of(gossip), worker.buckets(), communicator);
      made->enter(5);
      made->elastic()->visit_shared(own[0].state);
      made->elastic()->take_over(each);
      made->step(worker, {5, 0.05, false});
      made->drain();
      const float target = static_cast<float>(communicator.rank() + 1);  // the gradient is the way from there
      std::vector<float>& point = found[static_cast<std::size_t>(communicator.rank())];
      for (const float way : worker.gradient()) point.push_back(way + target);
    });
    // A codec rounds what is on its way, of which the sender keeps the rest.
    const double tolerance = std::string_view(gossip.codec) == "f16" ? 3e-3 : 1e-6;
    for (const auto& of_rank : found) {
      for (const std::size_t i : {0U, 19U, 32U, 48U}) ASSERT_NEAR(of_rank[i], wanted[i], tolerance * ranks) << i;
    }
  }
}

// One rank stops, and the others make as many steps as they can.
TEST_P(GossipGroups, NoRankIsFurtherAheadThanItsLead) {
  const int ranks = GetParam();
  constexpr std::uint64_t made_by_rank_0 = 5;
  for (const Gossip& gossip : {Gossip{"push_sum", "exponential"}, Gossip{"push_sum", "ring(peers=1)"},
                               Gossip{"push_sum(overlap=true, synch_freq=2)", "exponential"}, Gossip{"d_psgd", "ring"},
                               Gossip{"choco", "ring", "uniform", "topk(0.4)"},
                               Gossip{"push_sum", "exponential", "uniform", "none", true, "ring(peers=1)"}}) {
    std::atomic<std::uint64_t> furthest = 0, lead = 0;
    const auto run = [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto made =
          make_algorithm(test::algorithm(gossip.algorithm), options_of(gossip), worker.buckets(), communicator);
      const bool stops = communicator.rank() == 0;
      for (std::uint64_t step = 0; step < (stops ? made_by_rank_0 : 1000); ++step) {
        made->step(worker, {step, 0.05, false});
        for (std::uint64_t seen = furthest; seen <= step && !furthest.compare_exchange_weak(seen, step + 1);) {
        }
      }
      lead = made->elastic()->lead();
      for (std::uint64_t seen = 0; seen < made_by_rank_0 || seen != furthest;) {
        seen = furthest;
        std::this_thread::sleep_for(200ms);
      }
      throw Error("enough");
    };
    EXPECT_THROW(run_threads(ranks, 60s, run), Error);
    EXPECT_LE(furthest, made_by_rank_0 + lead) << gossip.algorithm << ", " << gossip.topology;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GossipGroups, testing::Values(2, 3, 4, 7));

}  // namespace
}  // namespace sotto
