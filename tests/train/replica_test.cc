#include "app/train/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "app/train/options/optimiser.h"
#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/train/chain.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using std::chrono::seconds;
using test::Chain, test::message_of;

class ReplicaTest : public testing::Test {
 protected:
  // Each segment is a bucket, the last one first: bucket 3 - s is segment s.
  Replica replica(std::uint64_t accumulate = 1, std::size_t most = most_elements, const char* optimiser = "sgd") {
    return {task,
            make_optimiser(test::optimiser(optimiser), task.layout()),
            plan_buckets(task.layout(), 64, most),
            accumulate,
            1,
            0};
  }
  std::vector<float> bucket(std::size_t index) {
    const auto part = task.part(3 - index);
    return {part.begin(), part.end()};
  }

  const std::vector<float> zeros = std::vector<float>(16, 0), ones = std::vector<float>(16, 1),
                           old = std::vector<float>(16, 9);
  Chain task;
};

TEST_F(ReplicaTest, RefusesACutTensorForAnOptimiserOfWholeOnes) {
  EXPECT_NO_THROW(replica(1, most_elements, "lars"));
  EXPECT_NO_THROW(replica(1, 8));
  const std::string why = message_of([&] { replica(1, 8, "lars"); });
  EXPECT_NE(why.find("optimiser: its step depends on whole tensors, and `"), std::string::npos) << why;
}

// The gradient is 1 in the 16 elements of a, c and d, and 0 in b, so its norm is the root of 48.
TEST_F(ReplicaTest, ClipsByNormBeforeAnyBucketIsReady) {
  Replica worker = replica(2);
  worker.clip_gradients(clip_table().read("clip", "norm(2, when=before)"));
  std::ranges::fill(task.gradient(), 9.0F);
  std::vector<float> copy(task.gradient().size());
  worker.copy_next_gradient(copy);
  std::vector<std::size_t> ready;
  const auto wanted = static_cast<float>(2 / (std::sqrt(48.0) + 1e-6));
  worker.compute_gradient(0, {.needed = [&](std::size_t) { EXPECT_TRUE(ready.empty()); },
                              .ready =
                                  [&](std::size_t index) {
                                    ready.push_back(index);
                                    for (const float value : bucket(index)) {
                                      EXPECT_FLOAT_EQ(value, index == 2 ? 0 : wanted) << index;
                                    }
                                  }});
  EXPECT_EQ(ready, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(copy, task.gradient())) << "what is captured is what is sent";
}

TEST_F(ReplicaTest, ClipsByValueBucketByBucket) {
  Replica worker = replica();
  worker.clip_gradients(clip_table().read("clip", "value(0.25, when=before)"));
  bool early = false;
  worker.compute_gradient(0, {.ready = [&](std::size_t index) {
                            early |= index == 0 && task.part(0)[0] == 0;  // backward has not reached a
                            EXPECT_EQ(bucket(index), std::vector<float>(16, index == 2 ? 0 : 0.25F)) << index;
                          }});
  EXPECT_TRUE(early) << "nothing need be held back";
}

// Until needed() returns for a bucket, its gradient may still be on its way to the other ranks.
TEST_F(ReplicaTest, AGradientStaysAsItIsUntilItsBucketWasAskedFor) {
  Replica worker = replica();
  std::ranges::fill(task.gradient(), 9.0F);
  std::vector<std::size_t> needed, ready;
  worker.compute_gradient(0, {.needed =
                                  [&](std::size_t index) {
                                    EXPECT_TRUE(ready.empty()) << index;
                                    EXPECT_EQ(bucket(index), old) << index;
                                    needed.push_back(index);
                                  },
                              .ready =
                                  [&](std::size_t index) {
                                    EXPECT_EQ(bucket(index), index == 2 ? zeros : ones) << index;
                                    ready.push_back(index);
                                  }});
  EXPECT_EQ(needed, (std::vector<std::size_t>{3, 1, 0, 2})) << "in the order of forward, then what it does not use";
  EXPECT_EQ(ready, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST_F(ReplicaTest, MicroStepsAskOnceAndAddUp) {
  Replica worker = replica(4);
  std::ranges::fill(task.gradient(), 9.0F);
  std::vector<int> asked(4);
  worker.compute_gradient(0, {.needed = [&](std::size_t index) { ++asked[index]; }});
  EXPECT_EQ(asked, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(task.positions, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(worker.data_seconds(), 1.0);
  for (const std::size_t index : {0, 1, 3}) EXPECT_EQ(bucket(index), ones) << index;
  EXPECT_EQ(bucket(2), zeros);
}

// Segment d is buckets 0 and 1, c is 2 and 3, and so on.
TEST_F(ReplicaTest, ASegmentThatIsTooLongIsSeveralBuckets) {
  Replica worker = replica(1, 10);
  ASSERT_EQ(worker.buckets().size(), 8U);
  std::ranges::fill(task.gradient(), 9.0F);
  std::vector<std::size_t> needed, ready;
  worker.compute_gradient(0, {.needed = [&](std::size_t index) { needed.push_back(index); },
                              .ready =
                                  [&](std::size_t index) {
                                    EXPECT_EQ(bucket(index / 2), index / 2 == 2 ? zeros : ones) << index;
                                    ready.push_back(index);
                                  }});
  EXPECT_EQ(needed, (std::vector<std::size_t>{6, 7, 2, 3, 0, 1, 4, 5}));
  EXPECT_EQ(ready, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(ReplicaTest, CopiesAGradientBeforeAnybodyMayChangeIt) {
  Replica worker = replica();
  std::vector<float> copy(task.layout().size(), 9.0F);
  worker.copy_next_gradient(copy);
  worker.compute_gradient(0, {.ready = [&](std::size_t index) { std::ranges::fill(task.part(3 - index), 5.0F); }});
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0F), 3 * 16);
  worker.compute_gradient(1, {});
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0F), 3 * 16) << "of one step alone";
}

TEST_F(ReplicaTest, ALossThatIsNotFiniteIsAnError) {
  Replica worker = replica();
  task.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(worker.compute_gradient(7, {}), NumericError);
  EXPECT_NE(message_of([&] { worker.compute_gradient(7, {}); }).find("at step 7"), std::string::npos);
}

constexpr float infinite = std::numeric_limits<float>::infinity();

TEST_F(ReplicaTest, AScaleOfTheLossIsGoneBeforeAnybodyGetsTheGradient) {
  Replica worker = replica(4);
  worker.scale_loss({});
  std::vector<std::string> calls;
  worker.compute_gradient(0, {.ready =
                                  [&](std::size_t index) {
                                    calls.emplace_back("ready");
                                    EXPECT_EQ(bucket(index), index == 2 ? zeros : ones) << index;
                                  },
                              .is_void =
                                  [&](bool overflows) {
                                    EXPECT_FALSE(overflows);
                                    calls.emplace_back("asked");
                                    return overflows;
                                  }});
  EXPECT_EQ(calls, (std::vector<std::string>{"asked", "ready", "ready", "ready", "ready"}));
  EXPECT_EQ(worker.loss_scale()->value(), 65536);
  EXPECT_EQ(worker.loss_scale()->taken(), 1U);
}

// The step is void if this rank's gradient or loss overflows, or the gradient of another rank.
TEST_F(ReplicaTest, AVoidStepChangesNothing) {
  for (const char* what : {"gradient", "loss", "other"}) {
    Replica worker = replica();
    worker.scale_loss({});
    task.slope = *what == 'g' ? infinite : 1;
    task.loss = *what == 'l' ? std::numeric_limits<double>::quiet_NaN() : 0.5;
    task.trained() = {7};
    task.buffers()[0] = 3;
    std::vector<std::size_t> ready;
    worker.optimiser().begin_step(0);
    worker.compute_gradient(0, {.ready = [&](std::size_t index) { ready.push_back(index); },
                                .is_void =
                                    [&](bool overflows) {
                                      EXPECT_EQ(overflows, *what != 'o');
                                      return true;
                                    }});
    EXPECT_EQ(ready.size(), 4U) << "of those who step alone others wait for the model";
    for (const std::size_t index : {0, 1, 2, 3}) EXPECT_EQ(bucket(index), zeros) << what;
    EXPECT_EQ(task.trained(), Tally{7}) << what;
    EXPECT_EQ(task.buffers()[0], 3) << what;
    const std::vector<float> before(task.parameters().begin(), task.parameters().end());
    std::vector<float> mean(before.size(), 1);
    worker.optimiser().apply(task.parameters(), mean, 0, 0.1);
    EXPECT_TRUE(std::ranges::equal(task.parameters(), before)) << what;
    EXPECT_EQ(worker.loss_scale()->value(), 32768) << what;
  }
}

TEST_F(ReplicaTest, OverflowsWithoutAScaleAreAnError) {
  Replica worker = replica();
  worker.scale_loss({});
  task.slope = infinite;
  for (std::uint64_t step = 0; step < 16; ++step) worker.compute_gradient(step, {});
  EXPECT_EQ(worker.loss_scale()->value(), 1);
  const std::string why = message_of([&] { worker.compute_gradient(16, {}); });
  EXPECT_NE(why.find("rank 0: gradients overflow float16 at step 16 though the loss, 0.5"), std::string::npos) << why;
}

// Before the first step the mean of iterates is empty.
TEST_F(ReplicaTest, WhatIsEvaluatedBeforeTheFirstStepIsTheModel) {
  ChosenOptimiser chosen;
  chosen.spec = test::optimiser("sgd");
  chosen.averaging.decay = 0.9;
  Replica worker(task, make_optimiser(chosen, task.layout()), plan_buckets(task.layout(), 64), 1, 1, 0);
  worker.scale_loss({});
  task.slope = infinite;
  worker.compute_gradient(0, {});
  EXPECT_EQ(worker.to_evaluate().data(), task.parameters().data());
  task.slope = 1;
  worker.optimiser().begin_step(1);
  worker.compute_gradient(1, {});
  worker.optimiser().apply(task.parameters(), task.gradient(), 0, 0.1);
  EXPECT_NE(worker.to_evaluate().data(), task.parameters().data());
  EXPECT_TRUE(std::ranges::equal(worker.to_evaluate(), task.parameters()));
}

// A resumed run continues with the counts of the batches of its epoch, and with the seconds and bytes spent.
TEST_F(ReplicaTest, CountsComeBackFromACheckpoint) {
  const test::TempFolder temp;
  task.trained() = {0.1, 3};
  RunTotals totals{.seconds = 1.0 / 3, .bytes_sent = 7};
  {
    StateWriter file(temp.path() / "rank_0");
    totals.visit_state(file);
    replica().visit_trained(file);
    file.finish();
  }
  task.trained() = {9, 9};
  RunTotals read;
  StateReader file(temp.path() / "rank_0");
  read.visit_state(file);
  replica().visit_trained(file);
  file.finish();
  EXPECT_EQ(task.trained(), (Tally{0.1, 3}));
  EXPECT_EQ(read.seconds, 1.0 / 3);
  EXPECT_EQ(read.bytes_sent, 7U);
  task.trained() = {1};
  StateReader other(temp.path() / "rank_0");
  EXPECT_NE(message_of([&] { replica().visit_trained(other); }).find("task/trained"), std::string::npos);
}

TEST(Slowdown, MultipliesWhatWasComputedAndAddsADelayAStep) {
  Slowdown slow(3, 2);
  const Clock::time_point begin{};
  slow.begin(begin);
  EXPECT_EQ(slow.until(begin + seconds(10)), begin + seconds(32));
  EXPECT_EQ(slow.until(begin + seconds(20)), begin + seconds(62));
  slow.begin(begin + seconds(100));
  EXPECT_EQ(slow.until(begin + seconds(110)), begin + seconds(132));
}

TEST(Slowdown, WaitingForOthersIsNotComputing) {
  Slowdown slow(3, 0);
  const Clock::time_point begin{};
  slow.begin(begin);
  slow.waited(seconds(4));
  EXPECT_EQ(slow.until(begin + seconds(10)), begin + seconds(4 + 3 * 6));
  slow.waited(seconds(1));
  EXPECT_EQ(slow.until(begin + seconds(11)), begin + seconds(5 + 3 * 6));
}

}  // namespace
}  // namespace sotto
