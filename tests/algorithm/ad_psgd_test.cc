// AD-PSGD on quadratics whose answer is known, with ranks of any speed, and how a run ends. Where ranks should be about
// equally fast, a barrier of the test makes them wait for each other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/pairs.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Hooked;
using test::Job;
using test::options_on;
using test::Quadratic;

// The sum of |x - (r + 1)|^2 / 2 is least at the mean of the targets.
TEST(AdPsgd, ComesNearTheLeastSum) {
  for (const Job& job :
       {Job{"1", 1}, {"1", 2}, {"1", 4}, {"3", 8}, {"ring", 4, "f16"}, {"star", 3}, {"star", 7, "bf16"}}) {
    for (const bool overlap : {true, false}) {
      std::vector<double> ends(static_cast<std::size_t>(job.ranks));
      run_threads(job.ranks, 60s, [&](Communicator& communicator) {
        Quadratic worker(communicator.rank());
        const auto algorithm = make_algorithm(test::algorithm("ad_psgd"), options_on(job.topology, job.codec, overlap),
                                              worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < 900; ++step) {
          algorithm->step(worker, {step, 0.003, false});
          communicator.barrier();
        }
        algorithm->drain();
        ends[static_cast<std::size_t>(communicator.rank())] = worker.parameters()[3];
      });
      double mean = 0;
      for (const double end : ends) mean += end / job.ranks;
      const double target = (job.ranks + 1) / 2.0;
      EXPECT_NEAR(mean, target, 0.1) << job.topology << ", " << job.ranks << ", " << overlap;
      if (overlap) continue;  // the number of exchanges depends on time
      for (const double end : ends) EXPECT_NEAR(end, target, 0.4) << job.topology << ", " << job.ranks;
    }
  }
}

// Whichever ranks average, and whenever, the sum of all x moves by the sum of all gradients. Where gradients do not
// depend on x (curvature 0), that sum is known beforehand.
TEST(AdPsgd, MovesTheSumBySumsOfGradients) {
  constexpr double lr = 0.01;
  constexpr std::uint64_t steps = 200;
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"1", 4}, {"3", 8}, {"ring", 4, "f16"}, {"star", 7, "bf16"}}) {
    for (const float curvature : {0.0F, 1.0F}) {
      std::vector<double> sums(static_cast<std::size_t>(job.ranks)), ends = sums;
      run_threads(job.ranks, 60s, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Quadratic quadratic(communicator.rank(), "sgd(momentum=0)", curvature);
        Hooked worker(
            quadratic, [](std::uint64_t /*step*/) {},
            [&] {
              for (float& value : quadratic.gradient()) value += static_cast<float>(rank + 1);
              sums[rank] += quadratic.gradient()[3];
            });
        const auto algorithm = make_algorithm(test::algorithm("ad_psgd"), options_on(job.topology, job.codec),
                                              worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < steps; ++step) algorithm->step(worker, {step, lr, false});
        algorithm->drain();
        ends[rank] = worker.parameters()[3];
      });
      double sum = 0, wanted = 0;
      for (std::size_t r = 0; r < sums.size(); ++r) {
        sum += ends[r];
        wanted -= lr * sums[r];
      }
      EXPECT_NEAR(sum, wanted, 1e-4 * job.ranks) << job.topology << ", " << job.ranks << ", " << curvature;
      if (curvature > 0) continue;
      const double known = -lr * steps * job.ranks * (job.ranks + 1) / 2;
      EXPECT_NEAR(sum, known, 1e-4 * job.ranks) << job.topology << ", " << job.ranks;
    }
  }
}

// After a third of its steps, one rank stands still until the others have made all of theirs.
TEST(AdPsgd, WaitsForNobody) {
  constexpr std::uint64_t steps = 60;
  for (const int slow : {0, 1}) {  // rank 0 answers, rank 1 asks
    for (const bool overlap : {true, false}) {
      std::latch others_done(3);
      run_threads(4, 60s, [&](Communicator& communicator) {
        Quadratic plain(communicator.rank());
        Hooked worker(plain, [&](std::uint64_t step) {
          if (communicator.rank() == slow && step == steps / 3) others_done.wait();
        });
        const auto algorithm = make_algorithm(test::algorithm("ad_psgd"), options_on("1", "none", overlap),
                                              worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < steps; ++step) algorithm->step(worker, {step, 0.01, false});
        if (communicator.rank() != slow) others_done.count_down();
        algorithm->drain();
        if (!overlap && communicator.rank() != slow && communicator.rank() % 2 == 1) {
          EXPECT_EQ(algorithm->own_speed()->exchange_count(), steps);
        }
      });
    }
  }
}

// One rank makes its fourth step only when the others have made all steps that are due before the meeting, and is slow
// from then on.
TEST(AdPsgd, CountsTheStepsOfAllTogether) {
  constexpr std::uint64_t meeting = 20;
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"1", 4}, {"ring", 8}, {"star", 5}}) {
    for (const char* algorithm : {"ad_psgd", "ad_psgd(every=7)"}) {
      for (const int slow : {0, job.ranks - 1}) {
        const auto all = meeting * static_cast<std::uint64_t>(job.ranks);
        std::atomic<std::uint64_t> made = 0;
        std::vector<std::vector<std::uint64_t>> known(static_cast<std::size_t>(job.ranks));
        run_threads(job.ranks, 60s, [&](Communicator& communicator) {
          const auto rank = static_cast<std::size_t>(communicator.rank());
          Quadratic plain(communicator.rank());
          Hooked worker(
              plain,
              [&](std::uint64_t step) {
                if (job.ranks == 1 || communicator.rank() != slow) return;
                while (step == 3 && made < all) std::this_thread::yield();
                if (step > 3) std::this_thread::sleep_for(20ms);
              },
              [&] { ++made; });
          const auto counting =
              make_algorithm(test::algorithm(algorithm), options_on(job.topology), worker.buckets(), communicator);
          EXPECT_TRUE(counting->traits().counts_together);
          std::uint64_t step = 0;
          for (bool meets = false; !meets; ++step) {
            const StepReport report = counting->step(worker, {.step = step, .lr = 0.01, .meeting = meeting});
            meets = report.meets;
            EXPECT_FALSE(report.stop);
            const std::uint64_t rate_step = counting->own_speed()->rate_step();
            EXPECT_LE(rate_step, made / static_cast<std::uint64_t>(job.ranks));
          }
          counting->drain();
          known[rank] = counting->own_speed()->rank_steps();
          EXPECT_EQ(known[rank][rank], step);
          EXPECT_GE(counting->own_speed()->rate_step(), meeting);
          communicator.barrier();  // no rank continues before all have looked
        });
        for (const auto& steps : known) EXPECT_EQ(steps, known[0]) << job.topology;
        EXPECT_EQ(std::accumulate(known[0].begin(), known[0].end(), std::uint64_t{0}), made);
        EXPECT_GE(made, all) << job.topology << ", " << job.ranks;
        EXPECT_TRUE(job.ranks == 1 || known[0][static_cast<std::size_t>(slow)] < meeting) << job.topology;
      }
    }
  }
}

// After a meeting each rank continues from its own step.
TEST(AdPsgd, MeetsWhenOneIsAskedAndGoesOn) {
  for (const int asked : {0, 3}) {
    run_threads(4, 60s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      auto algorithm = make_algorithm(test::algorithm("ad_psgd"), options_on("1"), worker.buckets(), communicator);
      EXPECT_TRUE(algorithm->traits().can_go_on);
      std::uint64_t step = 0;
      for (int meeting = 0; meeting < 4; ++meeting) {
        const std::uint64_t before = step;
        for (bool meets = false; !meets; ++step) {
          const bool wish = communicator.rank() == asked && step >= before + 5;
          meets = algorithm->step(worker, {step, 0.01, wish}).meets;
        }
        algorithm->drain();
        const auto steps = algorithm->own_speed()->rank_steps();
        EXPECT_EQ(steps[static_cast<std::size_t>(asked)], 6U * (static_cast<std::size_t>(meeting) + 1));
        EXPECT_EQ(steps[static_cast<std::size_t>(communicator.rank())], step);
        communicator.barrier();
        if (meeting != 1) continue;
        auto again = make_algorithm(test::algorithm("ad_psgd"), options_on("1"), worker.buckets(), communicator);
        test::hand_over(*algorithm, *again);
        EXPECT_EQ(again->own_speed()->rank_steps(), steps);
        algorithm = std::move(again);
      }
    });
  }
}

// With count=each, all ranks stop after the same step, through meetings and whichever rank is ahead.
TEST(AdPsgd, StopsTogetherWhenOneIsAsked) {
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"star", 3}, {"ring", 4}}) {
    for (const int asked : {0, job.ranks - 1}) {
      for (const std::uint64_t when : {0U, 7U, 9U, 10U}) {
        std::vector<std::uint64_t> ended(static_cast<std::size_t>(job.ranks));
        run_threads(job.ranks, 60s, [&](Communicator& communicator) {
          Quadratic worker(communicator.rank());
          const auto algorithm = make_algorithm(test::algorithm("ad_psgd(count=each)"), options_on(job.topology),
                                                worker.buckets(), communicator);
          EXPECT_FALSE(algorithm->traits().counts_together || algorithm->traits().can_go_on);
          std::uint64_t step = 0;
          for (bool stop = false; !stop; ++step) {
            stop = algorithm->step(worker, {step, 0.01, communicator.rank() == asked && step >= when}).stop;
            if ((step + 1) % 5 == 0) algorithm->drain();
          }
          algorithm->drain();
          ended[static_cast<std::size_t>(communicator.rank())] = step;
        });
        for (const std::uint64_t step : ended) EXPECT_EQ(step, ended[0]) << job.topology << ", " << when;
        EXPECT_GT(ended[0], when);
        EXPECT_LE(ended[0], when + 7);  // no rank is more than one step beyond the next meeting
      }
    }
  }
}

// A wish to stop changes nothing once another rank has made all its steps.
TEST(AdPsgd, EndsAsPlannedWhenOneHasDoneAllItsSteps) {
  std::latch first_done(1);
  run_threads(2, 60s, [&](Communicator& communicator) {
    Quadratic plain(communicator.rank());
    Hooked worker(plain, [&](std::uint64_t step) {
      if (communicator.rank() == 1 && step == 5) first_done.wait();
    });
    const auto algorithm =
        make_algorithm(test::algorithm("ad_psgd(count=each)"), options_on("1"), worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const bool wish = communicator.rank() == 1 && step > 5;
      if (communicator.rank() == 0 && step == 9) first_done.count_down();
      EXPECT_FALSE(algorithm->step(worker, {step, 0.01, wish}).stop && step < 9);
    }
    algorithm->drain();
  });
}

}  // namespace
}  // namespace sotto
