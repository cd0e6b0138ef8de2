// A rank whose model is still on its way takes part in the exchanges of the others, and then has their model.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {
using test::Quadratic;

constexpr std::uint64_t made_steps = 6;

struct Method {
  std::string codec, aggregator = "auto", optimiser = "sgd(momentum=0.9)", algorithm = "sync";
  friend std::ostream& operator<<(std::ostream& out, const Method& m) {
    return out << m.codec << ", " << m.aggregator << ", " << m.optimiser << ", " << m.algorithm;
  }
};

double lr_at(std::uint64_t step) { return 0.1 / static_cast<double>(1 + step); }

// The parameters of each rank after some steps, in which `follower` has no model until the end; -1: nobody follows.
std::vector<std::vector<float>> train(const Method& method, int ranks, int follower) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks));
  run_threads(ranks, std::chrono::seconds(60), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const int trainer = rank - (follower >= 0 && rank > follower ? 1 : 0);
    Quadratic worker(trainer, method.optimiser);
    const auto algorithm =
        make_algorithm(test::algorithm(method.algorithm),
                       {.phases = test::read_phases(method.codec, method.aggregator)}, worker.buckets(), communicator);
    const bool follows = rank == follower;
    std::ranges::fill(worker.parameters(), 0.25F);
    if (follower >= 0)
      algorithm->elastic()->following()->set_weight(
          follows ? 0 : static_cast<float>(ranks) / static_cast<float>(ranks - 1), {});
    for (std::uint64_t step = 0; step < made_steps; ++step) algorithm->step(worker, {.step = step, .lr = lr_at(step)});
    algorithm->drain();
    if (follows) {
      EXPECT_GT(algorithm->elastic()->following()->kept_bytes(), 0U);
      EXPECT_LE(algorithm->elastic()->following()->kept_bytes(), made_steps * worker.gradient().size() * sizeof(float));
      EXPECT_EQ(worker.parameters()[0], 0.25F) << "it waits for the model, and leaves its own alone";
      EXPECT_FALSE(algorithm->elastic()->catch_up(worker, Clock::time_point{})) << "no time, no step";
      EXPECT_TRUE(algorithm->elastic()->catch_up(worker, Clock::now() + std::chrono::seconds(60)));
      EXPECT_EQ(algorithm->elastic()->following()->kept_bytes(), 0U);
    }
    all[static_cast<std::size_t>(rank)].assign(worker.parameters().begin(), worker.parameters().end());
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
    {"none", "auto", "adam", "local(h=3)"},
    {"ef | int8", "auto", "sgd(momentum=0.9)", "local(h=5, after=1)"},
    {"none", "auto", "sgd(momentum=0)", "slowmo(h=2)"},
    {"f16", "auto", "adamw", "diloco(h=2)"},
    {"ef | topk(0.25, dense=0)", "gather", "sgd(momentum=0)", "diloco(h=1)"},
};
INSTANTIATE_TEST_SUITE_P(All, FollowerLaw, testing::ValuesIn(methods));

// But for roundings: what the others send is weighed.
TEST(Follower, ChangesNothingForTheOthers) {
  for (const char* algorithm : {"sync", "local(h=2)", "slowmo(h=3)", "diloco(h=3)"}) {
    const Method method{.codec = "none", .algorithm = algorithm};
    for (const int ranks : {2, 4}) {
      const auto alone = train(method, ranks, -1), followed = train(method, ranks + 1, 1);
      for (std::size_t i = 0; i < alone[0].size(); ++i)
        EXPECT_NEAR(followed[0][i], alone[0][i], 1e-6) << algorithm << i;
    }
  }
}

TEST(Follower, MustNotSendVotes) {
  const Quadratic worker(0);
  const std::span<const BucketPlan> buckets = worker.buckets();
  for (const Method& method : methods) EXPECT_TRUE(ignores_zeros(read_recipe(method.codec), buckets)) << method;
  for (const char* codec : {"signs", "signum", "topk(0.1, dense=0) | signs", "auto", "terngrad(shared=true)"})
    EXPECT_FALSE(ignores_zeros(read_recipe(codec), buckets)) << codec;
}

class Slow final : public Worker {
 public:
  explicit Slow(std::chrono::milliseconds time, bool fails = false) : time_(time), fails_(fails) {}
  std::span<float> parameters() override { return worker_.parameters(); }
  std::span<float> gradient() override { return worker_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return worker_.buckets(); }
  Optimiser& optimiser() override { return worker_.optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    std::this_thread::sleep_for(time_);
    worker_.fails = fails_ && step == 2;
    return worker_.compute_gradient(step, calls);
  }

 private:
  std::chrono::milliseconds time_;
  bool fails_;
  Quadratic worker_{0, "sgd(momentum=0)"};
};

TEST(Follower, WaitsForALongRoundOfTheOthers) {
  run_threads(3, std::chrono::seconds(3), [&](Communicator& communicator) {
    Slow worker(std::chrono::seconds(1));
    const auto algorithm = make_algorithm(test::algorithm("local(h=6)"), {}, worker.buckets(), communicator);
    algorithm->elastic()->following()->set_weight(communicator.rank() == 1 ? 0 : 1.5F, {});
    for (std::uint64_t step = 0; step < made_steps; ++step) algorithm->step(worker, {.step = step, .lr = 0.1});
    if (communicator.rank() == 1) {
      EXPECT_TRUE(algorithm->elastic()->catch_up(worker, Clock::now() + std::chrono::seconds(60)));
    }
    EXPECT_NEAR(worker.parameters()[0], 1 - std::pow(0.9F, 6), 1e-5);
  });
}

TEST(Follower, WaitsForALongStepOfTheOthers) {
  for (const char* name :
       {"sync", "local(h=1)"}) {  // sync: the first step, whose time nobody knows yet, and a later one
    run_threads(3, std::chrono::seconds(3), [&](Communicator& communicator) {
      Slow worker(std::chrono::seconds(5));
      const auto algorithm = make_algorithm(test::algorithm(name), {}, worker.buckets(), communicator);
      algorithm->elastic()->following()->set_weight(communicator.rank() == 1 ? 0 : 1.5F, {});
      for (std::uint64_t step = 0; step < (name[0] == 's' ? 2 : 1); ++step)
        algorithm->step(worker, {.step = step, .lr = 0.1});
    });
  }
}

// While it waits for the others' round it may wish to stop.
TEST(Follower, AsksAgainWhetherToStop) {
  run_threads(2, std::chrono::seconds(60), [&](Communicator& communicator) {
    Slow worker(std::chrono::milliseconds(100));
    const auto algorithm = make_algorithm(test::algorithm("local(h=3)"), {}, worker.buckets(), communicator);
    const bool follows = communicator.rank() == 1;
    algorithm->elastic()->following()->set_weight(follows ? 0 : 2.0F, [&] { return follows; });
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_EQ(algorithm->step(worker, {.step = step, .lr = 0.1}).stop, step == 2);
    }
  });
}

// A rank that fails in the middle of a round does not wait for the end of it, and the others learn of it.
TEST(Follower, ARankMayFailInALongRound) {
  std::atomic<int> failed = 0, lost = 0;
  run_threads(3, std::chrono::seconds(60), [&](Communicator& communicator) {
    Slow worker(std::chrono::seconds(1), communicator.rank() == 2);
    const auto algorithm = make_algorithm(test::algorithm("local(h=6)"), {}, worker.buckets(), communicator);
    algorithm->elastic()->following()->set_weight(communicator.rank() == 1 ? 0 : 1.5F, {});
    try {
      for (std::uint64_t step = 0; step < made_steps; ++step) algorithm->step(worker, {.step = step, .lr = 0.1});
    } catch (const NumericError&) {
      ++failed;
      communicator.give_up("it failed");
    } catch (const CommError&) {
      ++lost;
    }
  });
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(lost, 2);
}

}  // namespace
}  // namespace sotto
