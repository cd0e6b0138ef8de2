#include "app/advise/trial.h"

#include <gtest/gtest.h>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

constexpr std::chrono::milliseconds deadline{60'000};

std::size_t bytes_in(const Trace& trace) {
  std::size_t bytes = 0;
  for (const TracedExchange& exchange : trace.exchanges) {
    for (const auto& [peer, length] : exchange.sends) bytes += length;
  }
  return bytes;
}

TEST(Trace, HasTheMessagesOfEachExchange) {
  Turn turn(1);
  run_threads(3, deadline, [&](Communicator& inner) {
    TracedCommunicator communicator(inner, turn);
    std::vector<float> values{1, 2, static_cast<float>(inner.rank())};
    communicator.all_reduce(values);
    const Trace trace = communicator.take();
    EXPECT_EQ(values, (std::vector<float>{3, 6, 3}));
    ASSERT_EQ(trace.exchanges.size(), 1U);
    const int next = (inner.rank() + 1) % 3, last = (inner.rank() + 2) % 3;
    EXPECT_EQ(trace.exchanges[0].sends, (std::vector<std::pair<int, std::size_t>>{{next, 12}, {last, 12}}));
    EXPECT_EQ(trace.exchanges[0].receives, (std::vector<int>{last, next}));
    EXPECT_GE(trace.exchanges[0].work, 0);
    EXPECT_TRUE(communicator.take().exchanges.empty());
  });
}

TEST(Trace, AFailedRankReturnsTheTurn) {
  Turn turn(1);
  EXPECT_THROW(run_threads(2, deadline,
                           [&](Communicator& inner) {
                             TracedCommunicator communicator(inner, turn);
                             if (inner.rank() == 1) throw Error("rank 1 fails");
                             communicator.barrier();
                           }),
               Error);
  EXPECT_TRUE(turn.try_acquire());
}

TEST(Trial, SmoothTakesMediansOfWork) {
  const auto step = [](double work, double rest) {
    return StepTrace{{Trace{}, {Trace{{{work, {{1, 10}}, {1}}}, rest}}}};
  };
  std::vector<StepTrace> steps{step(1, 9), step(5, 2), step(2, 3), StepTrace{{Trace{}, {Trace{{}, 7}}}}};
  smooth(steps);
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(steps[s][0].buckets[0].exchanges[0].work, 2);
    EXPECT_EQ(steps[s][0].buckets[0].rest, 3);
  }
  EXPECT_EQ(steps[3][0].buckets[0].rest, 7);
}

// Gradients of `ranks` ranks, in two buckets.
MeasuredCompute made(std::size_t ranks) {
  MeasuredCompute compute;
  compute.layout.append("b", {96, 64});
  compute.layout.append("a", {128, 64});
  compute.buckets = plan_buckets(compute.layout, 4 * 128 * 64);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Philox random(1, Purpose::test, rank);
    auto& gradient = compute.gradients.emplace_back(compute.layout.size());
    for (float& value : gradient) value = static_cast<float>(random.normal());
  }
  return compute;
}

TEST(Trial, SendsWhatARunSends) {
  for (const int ranks : {2, 3, 8}) {
    const MeasuredCompute compute = made(static_cast<std::size_t>(ranks));
    const TriedMethod tried = try_method(read_recipe("none"), compute, {.ranks = ranks});
    EXPECT_EQ(tried.aggregator, "all_reduce");
    ASSERT_EQ(tried.steps.size(), 3U);
    run_threads(ranks, deadline, [&](Communicator& communicator) {
      const auto& rank = tried.steps[0][static_cast<std::size_t>(communicator.rank())];
      ASSERT_EQ(rank.buckets.size(), 2U);
      EXPECT_EQ(bytes_in(rank.agreement), communicator.all_reduce_bytes(1, DType::f32));
      for (std::size_t b = 0; b < 2; ++b) {
        EXPECT_EQ(bytes_in(rank.buckets[b]),
                  communicator.all_reduce_bytes(compute.buckets[b].layout.size(), DType::f32));
      }
    });
  }
}

TEST(Trial, ErrorsAreThoseOfTheMean) {
  const MeasuredCompute compute = made(2);
  const auto error = [&](const char* expression) {
    return try_method(read_recipe(expression), compute, {.ranks = 2}).relative_error;
  };
  EXPECT_LT(error("none"), 1e-6);
  EXPECT_NEAR(error("int8"), 0.01, 0.005);
  EXPECT_GT(error("qsgd(bits=4)"), 0.05);
  // All but a hundredth is held back, of the step in which nothing was held back before.
  EXPECT_NEAR(error("ef | topk(0.01, dense=0)"), 0.95, 0.04);
}

TEST(Trial, MoreRanksThanGradientsShareThem) {
  const TriedMethod tried = try_method(read_recipe("none"), made(2), {.ranks = 4});
  EXPECT_EQ(tried.steps[0].size(), 4U);
  EXPECT_LT(tried.relative_error, 1e-6);
}

TEST(Trial, RefusesWhatARunRefuses) {
  EXPECT_THROW(try_method(read_recipe("svd | atomo(s=3)", "all_reduce"), made(2), {.ranks = 2}), ConfigError);
}

}  // namespace
}  // namespace sotto
