// Options that workers and servers refuse, and how an error of one rank ends the group.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::Quadratic;

constexpr std::array modes = {"parameter_server", "parameter_server(mode=async)",
                              "parameter_server(mode=stale, bound=1)", "parameter_server(servers=2, dedicated=true)",
                              "parameter_server(servers=2, gradients=3)"};

TEST(ServerErrors, OfAWorkerIsTheOneThatIsReported) {
  for (const char* mode : modes) {
    EXPECT_THROW(run_threads(5, 20s,
                             [&](Communicator& communicator) {
                               Quadratic worker(communicator.rank());
                               const auto served =
                                   make_algorithm(test::algorithm(mode), {}, worker.buckets(), communicator);
                               for (std::uint64_t step = 0; step < 1000000; ++step) {
                                 worker.fails = communicator.rank() == 3 && step == 2;
                                 served->step(worker, {step, 0.01, false});
                               }
                             }),
                 NumericError)
        << mode;
  }
}

// Rank 3 makes no third step. All others must end with an error that names it.
void stall(const char* mode) {
  Mutex mutex;
  Condition changed;
  std::vector<std::string> reasons(5);
  int failed = 0;
  const auto begin = Clock::now();
  run_threads(5, 10s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto served = make_algorithm(test::algorithm(mode), {}, worker.buckets(), communicator);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    reasons[rank] = message_of([&] {
      for (std::uint64_t step = 0;; ++step) {
        if (rank == 3 && step == 2) {
          Lock lock(mutex);
          EXPECT_TRUE(changed.wait_for(lock, 60s, [&] { return failed == 4; }));
          throw CommError("wakes up too late");
        }
        served->step(worker, {step, 0.01, false});
      }
    });
    const Lock lock(mutex);
    ++failed;
    changed.notify_all();
  });
  // One server names the rank that it waits for. Other ranks may hear of that before they find it themselves.
  const auto named = [](const std::string& reason) { return reason.find("waits for rank 3") != std::string::npos; };
  EXPECT_TRUE(std::ranges::any_of(reasons, named)) << mode << ": " << reasons[0] << ", " << reasons[1];
  for (const std::string& reason : reasons) EXPECT_NE(reason, "") << mode;
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 60) << mode;
}

// All modes run at the same time, since each waits for most of a deadline, and deadlines are long for the sake of busy
// machines.
TEST(ServerErrors, NameARankThatStalls) {
  std::vector<std::jthread> all;
  for (const char* mode : modes) all.emplace_back(stall, mode);
}

// When a rank fails after a rest, the others hear of it at once; they do not wait for a deadline.
TEST(ServerErrors, BehindARestAreHeardOf) {
  std::string why;
  const auto body = [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto served = make_algorithm(test::algorithm("parameter_server"), {}, worker.buckets(), communicator);
    served->step(worker, {0, 0.01, false});
    if (communicator.rank() == 2) {
      served->drain();
      throw NumericError("its own");
    }
    const std::string reason = message_of([&] {
      served->drain();  // rank 2 may leave its own drain(), and fail, before this one returns
      for (std::uint64_t step = 1;; ++step) served->step(worker, {step, 0.01, false});
    });
    if (communicator.rank() == 0) why = reason;
  };
  EXPECT_THROW(run_threads(3, 20s, body), NumericError);
  EXPECT_NE(why.find("its own"), std::string::npos) << why;
}

TEST(ServerErrors, SayWhatToDo) {
  run_threads(3, 20s, [](Communicator& communicator) {
    const auto why = [&](const std::string& options, const char* codec, const char* optimiser = "sgd") {
      Quadratic worker(communicator.rank(), optimiser);
      AlgorithmOptions all;
      all.phases = test::read_phases(codec);
      const std::string expression = "parameter_server(" + options + ")";
      return message_of([&] {
        const auto served = make_algorithm(test::algorithm(expression), all, worker.buckets(), communicator);
        served->step(worker, {0, 0.1, false});
        served->drain();
      });
    };
    const auto expect = [](const std::string& message, const char* part) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    expect(why("mode=syn", "none"), "mode must be");
    expect(why("gradients=4", "none"), "gradients=4 of 3 workers");
    expect(why("gradients=3, servers=1, dedicated=true", "none"), "gradients=3 of 2 workers");
    expect(why("mode=async, gradients=2", "none"), "gradients is for mode=sync");
    expect(why("bound=2", "none"), "bound is of mode=stale");
    expect(why("late=carry", "none"), "late is for gradients=K");
    expect(why("servers=4", "none"), "servers=4 of 3 ranks");
    expect(why("servers=3, dedicated=true", "none"), "nobody is left to train");
    expect(why("down=signs", "none"), "for gradients alone");
    expect(why("down=ef", "none"), "no memory");
    expect(why("down=qsgd(bits=1, bucket=100000, norm=l2)", "none"), "a contraction is wanted");
    expect(why("", "power"), "made by all ranks together");
    expect(why("", "signsgd"), "published with the aggregator `vote`");
    expect(why("", "terngrad(shared=true)"), "ranks agree on its scales");
    for (const char* codec : {"momentum(mean=true) | f32", "momentum(mean=true)"}) {
      expect(why("", codec), "a server alone has the mean");
      expect(why("mode=async", codec), "leave `mean` out");
    }
    EXPECT_EQ(why("", "momentum | f32", "dgc"), "");
    expect(why("", "none", "onebit-adam"), "servers alone have");
    EXPECT_EQ(why("down=(topk(0.5) | f16)", "ef | sign"), "");
    EXPECT_EQ(why("", "signs"), "") << "models go back dense";
  });
  run_threads(8, 20s, [](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const std::string why = message_of(
        [&] { make_algorithm(test::algorithm("parameter_server(servers=4)"), {}, worker.buckets(), communicator); });
    EXPECT_NE(why.find("servers=4 of 3 buckets"), std::string::npos) << why;
  });
}

TEST(ServerErrors, OnlySyncOfAllWorkersGoesStepByStep) {
  const auto in_step = [](const char* expression) { return all_in_step(test::algorithm(expression), 3); };
  EXPECT_TRUE(in_step("sync"));
  EXPECT_FALSE(in_step("local"));
  for (const char* one : {"parameter_server", "parameter_server(servers=2)", "parameter_server(gradients=3)"}) {
    EXPECT_TRUE(in_step(one)) << one;
  }
  for (const char* one : {"parameter_server(mode=async)", "parameter_server(mode=stale)",
                          "parameter_server(gradients=2)", "parameter_server(dedicated=true)"}) {
    EXPECT_FALSE(in_step(one)) << one;
  }
}

}  // namespace
}  // namespace sotto
