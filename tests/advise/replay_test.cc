#include "app/advise/replay.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

constexpr double tolerance = 1e-7;  // links round times to nanoseconds

// Two ranks send each other `bytes`, with `work` before and `rest` after.
Trace swap_of(int rank, std::size_t bytes, double work = 0, double rest = 0) {
  return {{{work, {{1 - rank, bytes}}, {1 - rank}}}, rest};
}

StepTrace step_of(const std::vector<std::size_t>& buckets, double work = 0, double rest = 0) {
  StepTrace step(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const std::size_t bytes : buckets) {
      step[static_cast<std::size_t>(rank)].buckets.push_back(swap_of(rank, bytes, work, rest));
    }
  }
  return step;
}

Links link_of(double bits_per_second, double latency = 0) { return {.all = {bits_per_second, latency, 0}}; }

// A byte a microsecond.
constexpr double rate = 8e6;

TEST(Replay, WithoutExchangesAStepIsItsComputing) {
  const ComputeTimes compute{{0.010, 0.002}, 0.005, 0.001};
  const std::vector<StepTrace> steps(3, StepTrace(2, {Trace{}, {Trace{}, Trace{}}}));
  const Replayed replayed = replay(compute, steps, link_of(rate));
  EXPECT_NEAR(replayed.seconds, 0.018, tolerance);
  EXPECT_NEAR(replayed.waiting, 0, tolerance);
  EXPECT_NEAR(compute.total(), 0.018, 1e-12);
}

TEST(Replay, ABucketLeavesWhenItIsReady) {
  const ComputeTimes compute{{0.010}, 0.020, 0.001};
  // Ready after 10 ms; encoded for 3, on the wire for 100, under way for 5, decoded for 2: 90 ms after computing.
  const Replayed replayed =
      replay(compute, std::vector<StepTrace>{step_of({100'000}, 0.003, 0.002)}, link_of(rate, 0.005));
  EXPECT_NEAR(replayed.seconds, 0.121, tolerance);
  EXPECT_NEAR(replayed.waiting, 0.090, tolerance);
}

TEST(Replay, MessagesCostSomethingBelowTheLink) {
  const HostCost host{.message = 0.002, .byte = 1e-7};  // 12 ms for 100 KB
  const std::vector<StepTrace> steps{step_of({100'000})};
  EXPECT_NEAR(replay({{0.010}, 0, 0}, steps, link_of(rate), {}, host).seconds, 0.122, tolerance);
}

TEST(Replay, AnExchangeThatEndsBeforeComputingCostsNothing) {
  const ComputeTimes compute{{0.010}, 0.200, 0};
  const Replayed replayed = replay(compute, std::vector(4, step_of({100'000}, 0.003, 0.002)), link_of(rate, 0.005));
  EXPECT_NEAR(replayed.seconds, 0.210, tolerance);
  EXPECT_NEAR(replayed.waiting, 0, tolerance);
}

TEST(Replay, BucketsFollowOneAnother) {
  const ComputeTimes compute{{0.010, 0.030, 0.030}, 0, 0};
  // The first is exchanged from 10 to 60, the second waits for it until 60, the third until 110.
  const Replayed replayed = replay(compute, std::vector(3, step_of({50'000, 50'000, 50'000})), link_of(rate));
  EXPECT_NEAR(replayed.seconds, 0.160, tolerance);
  EXPECT_NEAR(replayed.waiting, 0.090, tolerance);
}

TEST(Replay, RoundsPayTheLatencyEachTime) {
  StepTrace step(2);
  for (int rank = 0; rank < 2; ++rank) {
    const Trace once = swap_of(rank, 1000);
    step[static_cast<std::size_t>(rank)].buckets.push_back({{once.exchanges[0], once.exchanges[0]}, 0});
  }
  EXPECT_NEAR(replay({{0.010}, 0, 0}, std::vector<StepTrace>{step}, link_of(rate, 0.020)).seconds, 0.052, tolerance);
}

TEST(Replay, WorkAndComputingShareTheCores) {
  const ComputeTimes compute{{0.010}, 0.020, 0};
  const std::vector<StepTrace> steps{step_of({0}, 0.010)};
  EXPECT_NEAR(replay(compute, steps, link_of(rate)).seconds, 0.030, tolerance);
  // From 10 to 30 ms both go at half speed; the other half of the computing that is left takes 10 ms.
  EXPECT_NEAR(replay(compute, steps, link_of(rate), {.both = 0.5}).seconds, 0.040, tolerance);
}

TEST(Replay, HalfACoreIsHalfAsQuick) {
  const Speeds half = speeds_of(0.5, 1, 1);
  EXPECT_EQ(half.computing, 0.5);
  EXPECT_EQ(half.working, 0.5);
  EXPECT_EQ(half.both, 0.25);
  const Speeds two = speeds_of(2, 2, 1);
  EXPECT_EQ(two.computing, 1);
  EXPECT_EQ(two.working, 1);
  EXPECT_NEAR(two.both, 2.0 / 3, 1e-12);
  // Computing takes 20 ms; then 10 ms of work and 20 of computing share a quarter: 40 until the work is done, in which
  // 10 were computed; the others take 20.
  const std::vector<StepTrace> steps{step_of({0}, 0.010)};
  EXPECT_NEAR(replay({{0.010}, 0.020, 0}, steps, link_of(rate), half).seconds, 0.080, tolerance);
}

TEST(Replay, TheAgreementComesFirst) {
  StepTrace step = step_of({1000});
  for (int rank = 0; rank < 2; ++rank) step[static_cast<std::size_t>(rank)].agreement = swap_of(rank, 4);
  // The bucket is ready after 10 ms, and leaves when the agreement has arrived, after 50.004.
  EXPECT_NEAR(replay({{0.010}, 0, 0}, std::vector<StepTrace>{step}, link_of(rate, 0.050)).seconds, 0.101004, tolerance);
}

TEST(Replay, ASlowRankHoldsUpTheOther) {
  Links links = link_of(rate);
  links.ranks[1] = {.egress = rate, .ingress = rate, .compute = 3, .delay = 0.004};
  const Replayed replayed = replay({{0.010}, 0, 0.002}, std::vector<StepTrace>{step_of({1000})}, links);
  EXPECT_NEAR(replayed.seconds, 0.034 + 0.001 + 0.006, tolerance);
  EXPECT_NEAR(replayed.waiting, 0.025, tolerance);
}

TEST(Replay, MessagesToSeveralRanksShareTheEgress) {
  StepTrace step(3);
  for (int rank = 0; rank < 3; ++rank) {
    const int next = (rank + 1) % 3, last = (rank + 2) % 3;
    step[static_cast<std::size_t>(rank)].buckets.push_back({{{0, {{next, 10'000}, {last, 10'000}}, {next, last}}}, 0});
  }
  // 20 KB leave a rank in 20 ms, and as many arrive.
  EXPECT_NEAR(replay({{0}, 0, 0}, std::vector<StepTrace>{step}, link_of(rate)).seconds, 0.020, tolerance);
}

TEST(Replay, MessagesThatNobodySendsAreAnError) {
  StepTrace step = step_of({10});
  step[1].buckets[0].exchanges[0].sends.clear();
  EXPECT_THROW(replay({{0}, 0, 0}, std::vector<StepTrace>{step}, link_of(rate)), std::logic_error);
}

}  // namespace
}  // namespace sotto
