#include "sotto/train/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/comm/threads.h"
#include "sotto/train/buckets.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/train/chain.h"

namespace sotto {
namespace {
using test::Chain;

constexpr std::uint64_t steps = 6;

struct Method {
  std::string codec, aggregator = "auto", optimiser = "sgd(momentum=0.9)";
  friend std::ostream& operator<<(std::ostream& out, const Method& m) {
    return out << m.codec << ", " << m.aggregator << ", " << m.optimiser;
  }
};

double lr_at(std::uint64_t step) { return 0.1 / static_cast<double>(1 + step); }

// The parameters of each rank after some steps of sync, in which `follower` has no model until the end; -1: nobody
// follows.
std::vector<std::vector<float>> train(const Method& method, int ranks, int follower) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks));
  run_threads(ranks, std::chrono::seconds(60), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Chain task;
    Replica replica(task, make_optimiser(test::optimiser(method.optimiser), task.layout()),
                    plan_buckets(task.layout(), 64), 1, 1, rank);
    const auto algorithm =
        make_algorithm(test::algorithm("sync"), {.phases = test::read_phases(method.codec, method.aggregator)},
                       replica.buckets(), communicator);
    const bool follows = rank == follower;
    Follower watcher(replica);
    std::ranges::fill(replica.parameters(), follows ? 9.0F : 1.0F);
    if (!follows && follower >= 0) replica.weigh(static_cast<float>(ranks) / static_cast<float>(ranks - 1));
    const int trainer = rank - (follower >= 0 && rank > follower ? 1 : 0);
    for (std::uint64_t step = 0; step < steps; ++step) {
      task.slope = static_cast<float>(1 + trainer) + 0.3F * static_cast<float>(step % 4);
      algorithm->step(follows ? static_cast<Worker&>(watcher) : replica, {.step = step, .lr = lr_at(step)});
    }
    if (follows) {
      const std::size_t dense = steps * replica.gradient().size() * sizeof(float);
      EXPECT_GT(watcher.kept_bytes(), 0U);
      EXPECT_LE(watcher.kept_bytes(), dense);
      std::ranges::fill(replica.parameters(), 1.0F);
      EXPECT_FALSE(watcher.catch_up(lr_at, Clock::time_point{})) << "no time, no step";
      EXPECT_TRUE(watcher.catch_up(lr_at, Clock::now() + std::chrono::seconds(60)));
      EXPECT_EQ(watcher.kept_bytes(), 0U);
    }
    all[static_cast<std::size_t>(rank)].assign(replica.parameters().begin(), replica.parameters().end());
  });
  return all;
}

class FollowerLaw : public testing::TestWithParam<Method> {};

TEST_P(FollowerLaw, EndsWithTheBitsOfTheOthers) {
  for (const int ranks : {2, 3, 5}) {
    for (const int follower : {0, ranks - 1}) {
      const auto all = train(GetParam(), ranks, follower);
      for (const auto& parameters : all) EXPECT_EQ(parameters, all.front()) << ranks << " ranks, " << follower;
    }
  }
}

const std::vector<Method> methods{
    {"none"},
    {"none", "auto", "adam"},
    {"f16"},
    {"ef | topk(0.25, dense=0)", "gather"},
    {"ef | topk(0.25, dense=0)", "scatter_reduce", "adam"},
    {"ef | topk(0.25, dense=0) | qsgd(bits=4) | rans", "sparse"},
    {"qsgd(bits=2)"},
    {"terngrad"},
    {"ef | sign(block=16)", "scatter_reduce"},
    {"ef | int8", "gather", "lars"},
};
INSTANTIATE_TEST_SUITE_P(All, FollowerLaw, testing::ValuesIn(methods));

// But for roundings: the trainers' gradients are weighed.
TEST(Follower, ChangesNothingForTheOthers) {
  for (const int ranks : {2, 4}) {
    const auto alone = train({"none"}, ranks, -1), followed = train({"none"}, ranks + 1, 1);
    for (std::size_t i = 0; i < alone[0].size(); ++i) EXPECT_NEAR(followed[0][i], alone[0][i], 1e-6) << i;
  }
}

TEST(Follower, MustNotSendVotes) {
  Chain task;
  const std::vector<BucketPlan> buckets = plan_buckets(task.layout(), 64);
  for (const Method& method : methods) EXPECT_TRUE(ignores_zeros(read_recipe(method.codec), buckets)) << method;
  for (const char* codec : {"signs", "signum", "topk(0.1, dense=0) | signs", "auto", "terngrad(shared=true)"})
    EXPECT_FALSE(ignores_zeros(read_recipe(codec), buckets)) << codec;
}

}  // namespace
}  // namespace sotto
