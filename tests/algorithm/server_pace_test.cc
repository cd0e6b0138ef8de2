// Workers of a parameter server that are not equally fast: who waits for whom, and when all meet or stop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/thread.h"
#include "tests/algorithm/quadratic.h"
#include "tests/algorithm/served_algorithm.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::expect_replicas;
using test::make_served;
using test::Quadratic;
using test::with;

// Takes each step when the test lets it.
class Held final : public Quadratic {
 public:
  Held(int rank, std::function<void(std::uint64_t)> before) : Quadratic(rank), before_(std::move(before)) {}
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    before_(step);
    return Quadratic::compute_gradient(step, calls);
  }

 private:
  std::function<void(std::uint64_t)> before_;
};

// The slow worker begins a step only when another worker is as far ahead as it may be.
TEST(ServerPace, LetsWorkersRunAheadUpToTheBound) {
  constexpr std::uint64_t bound = 3, steps = 12;
  for (const char* mode : {"mode=stale, bound=3", "mode=async"}) {
    const bool bounded = std::string_view(mode).starts_with("mode=stale");
    Mutex mutex;
    Condition changed;
    std::uint64_t slow = 0, fast = 0;
    run_threads(3, 20s, [&](Communicator& communicator) {
      Held worker(communicator.rank(), [&](std::uint64_t step) {
        Lock lock(mutex);
        if (communicator.rank() == 2) {
          slow = step;
          const std::uint64_t ahead = std::min(steps - 1, bounded ? step + bound : steps);
          EXPECT_TRUE(changed.wait_for(lock, 15s, [&] { return fast >= ahead; })) << mode;
        } else if (communicator.rank() == 0) {
          fast = step;
          EXPECT_LE(step, bounded ? slow + 1 + bound : steps);
          changed.notify_all();
        }
      });
      const auto served = make_served(with(mode), "none", worker, communicator);
      for (std::uint64_t step = 0; step < steps; ++step) served->step(worker, {step, 0.01, false});
      served->drain();
      expect_replicas(worker.parameters(), communicator, mode);
    });
  }
}

// No worker waits for a straggler, and one that comes back is answered like the others.
TEST(ServerPace, GoesOnWithoutAStraggler) {
  for (const char* expression : {"gradients=2", "gradients=2, late=carry", "gradients=2, down=sign(block=32)"}) {
    Mutex mutex;
    Condition changed;
    int ended = 0;
    run_threads(3, 20s, [&](Communicator& communicator) {
      Held worker(communicator.rank(), [&](std::uint64_t step) {
        Lock lock(mutex);
        if (communicator.rank() == 1 && step == 2) {
          EXPECT_TRUE(changed.wait_for(lock, 15s, [&] { return ended > 0; })) << expression;
        }
      });
      const auto served = make_served(with(expression), "none", worker, communicator);
      for (std::uint64_t step = 0; step < 30; ++step) served->step(worker, {step, 0.05, false});
      {
        const Lock lock(mutex);
        if (communicator.rank() != 1) ++ended;
        changed.notify_all();
      }
      served->drain();
      expect_replicas(worker.parameters(), communicator, expression);
    });
  }
}

TEST(ServerPace, StopsTogetherWhenOneIsAsked) {
  for (const char* expression :
       {"mode=sync", "servers=2", "gradients=2, count=each", "mode=stale, count=each",
        "mode=async, servers=3, count=each", "servers=2, dedicated=true", "dedicated=true, mode=async, count=each"}) {
    for (const int asked : {0, 1, 3}) {
      std::vector<std::uint64_t> ended(4);
      run_threads(4, 20s, [&](Communicator& communicator) {
        Quadratic worker(communicator.rank());
        const auto served = make_served(with(expression), "none", worker, communicator);
        std::uint64_t step = 0;
        while (!served->step(worker, {step, 0.01, step >= 7 && communicator.rank() == asked}).stop) ++step;
        served->drain();
        ended[static_cast<std::size_t>(communicator.rank())] = step;
      });
      for (const std::uint64_t step : ended) EXPECT_EQ(step, ended[0]) << expression << ", rank " << asked;
      EXPECT_GE(ended[0], 7U);
    }
  }
}

constexpr std::array together = {"gradients=2",
                                 "mode=stale",
                                 "mode=stale, bound=0",
                                 "mode=async",
                                 "mode=async, servers=3",
                                 "servers=2, dedicated=true, mode=async",
                                 "dedicated=true, mode=stale, servers=1"};

// They meet once all of them together have made enough steps, however few the slow one made, or when one is asked to
// stop; and continue from there.
TEST(ServerPace, CountsTogether) {
  for (const char* expression : together) {
    for (const bool asked : {false, true}) {
      const std::string what = fmt::format("{}, {}", expression, asked ? "asked" : "enough");
      const bool waits = std::string_view(expression).find("stale") != std::string_view::npos;
      Mutex mutex;
      Condition changed;
      std::uint64_t fast = 0;
      bool meet = false;
      std::vector<std::vector<std::uint64_t>> met(4);
      run_threads(4, 20s, [&](Communicator& communicator) {
        const int rank = communicator.rank();
        // Without a bound the last worker takes a step when another one has begun that four steps later.
        Held worker(rank, [&](std::uint64_t step) {
          Lock lock(mutex);
          if (rank != 3) fast = std::max(fast, step);
          changed.notify_all();
          if (rank != 3 || waits) return;
          EXPECT_TRUE(changed.wait_for(lock, 15s, [&] { return meet || fast >= step + 4; })) << what;
        });
        const auto served = make_served(with(expression), "none", worker, communicator);
        ASSERT_TRUE(served->traits().counts_together && served->own_speed()) << what;
        std::uint64_t step = 0;
        for (const std::uint64_t meeting : {10U, 17U}) {
          StepReport report;
          while (!report.meets) {
            report = served->step(worker, {step++, 0.01, asked && rank == 2 && step > 5, asked ? 0 : meeting});
            EXPECT_FALSE(report.stop);
          }
          {
            const Lock lock(mutex);
            meet = true;
            changed.notify_all();
          }
          served->drain();
          const auto made = served->own_speed()->rank_steps();
          EXPECT_EQ(made[static_cast<std::size_t>(rank)], step) << what;
          EXPECT_TRUE(asked || std::reduce(made.begin(), made.end()) >= 4 * meeting) << what;
          expect_replicas(worker.parameters(), communicator, what);
          EXPECT_TRUE(waits || meeting > 10 || std::ranges::max(made) >= made[3] + 2) << what;
          met[static_cast<std::size_t>(rank)] = made;
          served->go_on();
        }
      });
      for (const auto& made : met) EXPECT_EQ(made, met[0]) << what;
    }
  }
}

}  // namespace
}  // namespace sotto
