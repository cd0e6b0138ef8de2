// Memory does not grow over many steps.
#include <gtest/gtest.h>

#include <string>

#include "quadratic.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto::test {
namespace {

using namespace std::chrono_literals;

struct Job {
  const char* algorithm;
  const char* codec = "none";
};
std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.algorithm << ", " << job.codec; }

class LongRun : public ::testing::TestWithParam<Job> {};

TEST_P(LongRun, AllocatesNothingThatStays) {
  constexpr std::uint64_t settled = 1000, steps = 11000;
  std::size_t before = 0, after = 0;
  run_threads(2, 120s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    AlgorithmOptions options;
    options.phases = test::read_phases(GetParam().codec);
    options.topology = test::topology("ring");
    const auto algorithm =
        make_algorithm(test::algorithm(GetParam().algorithm), options, worker.buckets(), communicator);
    const auto measure = [&](std::size_t& bytes) {
      algorithm->drain();
      communicator.barrier();
      if (communicator.rank() == 0) bytes = sotto::testing::allocated_bytes();
      communicator.barrier();
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (step == settled) measure(before);
      algorithm->step(worker, {step, 0.001, false});
    }
    measure(after);
  });
  // One byte a step would be a megabyte in a million steps. Messages that are on their way take less than this limit.
  EXPECT_LT(after, before + (steps - settled)) << before;
}

INSTANTIATE_TEST_SUITE_P(Jobs, LongRun,
                         ::testing::Values(Job{"sync"}, Job{"sync", "ef | topk(0.1)"}, Job{"sync(priority=need)"},
                                           Job{"push_sum"}, Job{"push_sum(overlap=true)"}, Job{"d_psgd"},
                                           Job{"choco", "topk(0.1)"}, Job{"ad_psgd"}, Job{"local(h=4)"},
                                           Job{"parameter_server(mode=async)"},
                                           Job{"parameter_server(mode=stale, bound=2)", "ef | topk(0.1)"}));

}  // namespace
}  // namespace sotto::test
