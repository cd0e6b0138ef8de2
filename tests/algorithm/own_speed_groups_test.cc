// Ranks at their own speed whose group changes: each goes on from where it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <utility>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

// What a rank keeps after an error.
struct Left {
  test::Store state, buffers;
  std::vector<float> parameters;
};

class OwnSpeedGroups : public testing::TestWithParam<const char*> {};

AlgorithmOptions coded() { return {.phases = test::read_phases("f16"), .topology = test::topology("star")}; }

// The last rank fails; what the others keep is read while nothing changes it any more.
std::vector<Left> leave(const char* algorithm, int ranks) {
  std::vector<Left> left(static_cast<std::size_t>(ranks));
  std::latch all_there(ranks);
  const auto run = [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Quadratic worker(rank, "adam");
    const auto made = make_algorithm(test::algorithm(algorithm), coded(), worker.buckets(), communicator);
    all_there.arrive_and_wait();  // the others do not fail before
    try {
      for (std::uint64_t step = 0;; ++step) {
        if (step == 20 && rank == ranks - 1) throw CommError("lost");
        made->step(worker, {step, 0.01, false, 1U << 30});
      }
    } catch (const CommError&) {
      made->own_speed()->abandon();
      Left& own = left[static_cast<std::size_t>(rank)];
      made->visit_state(own.state);
      worker.optimiser().visit_buffers(own.buffers);
      own.parameters.assign(worker.parameters().begin(), worker.parameters().end());
      throw;
    }
  };
  EXPECT_THROW(run_threads(ranks, 60s, run), CommError);
  for (Left& one : left) one.state.reading = one.buffers.reading = true;
  return left;
}

// Three ranks are left, and one is new. Ranks keep their numbers, or the first one is the new one.
TEST_P(OwnSpeedGroups, GoOnFromWhatIsLeft) {
  const bool serves = std::string_view(GetParam()).starts_with("parameter_server");
  const bool dedicated = std::string_view(GetParam()).find("dedicated") != std::string_view::npos;
  for (const bool first_is_new : {false, true}) {
    std::vector<Left> left = leave(GetParam(), 4);
    left.pop_back();
    left.insert(first_is_new ? left.begin() : left.end(), Left{});
    const std::vector<float> served =
        serves && !first_is_new ? left[0].state.floats.at("parameter_server/server/model") : std::vector<float>();
    std::vector<std::vector<float>> found(4);
    std::vector<std::uint64_t> made_by(4);
    run_threads(4, 60s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      Left& own = left[rank];
      const bool is_new = own.parameters.empty();
      Quadratic worker(communicator.rank(), "adam");
      const auto made = make_algorithm(test::algorithm(GetParam()), coded(), worker.buckets(), communicator);
      std::ranges::fill(worker.parameters(), 99.0F);
      if (!is_new) {
        std::ranges::copy(own.parameters, worker.parameters().begin());
        worker.optimiser().visit_buffers(own.buffers);
        const FormerRank self{static_cast<int>(rank) - (first_is_new ? 1 : 0), 4, &own.state};
        made->take_over({&self, 1});
      }
      made->meet_others(worker, is_new);
      found[rank].assign(worker.parameters().begin(), worker.parameters().end());
      test::Store buffers;
      worker.optimiser().visit_buffers(buffers);
      const bool serves_on = rank == 0 && !first_is_new;
      for (const auto& [name, values] : buffers.floats) {
        const bool any = std::ranges::any_of(values, [](float value) { return value != 0; });
        if (serves) {
          EXPECT_EQ(any, serves_on) << "rank " << rank << ", " << name;
        }
      }
      made->own_speed()->begin_at(20);
      EXPECT_EQ(made->own_speed()->rate_step(), 20U);
      std::uint64_t step = 20;
      for (bool meets = false; !meets; ++step) meets = made->step(worker, {step, 0.01, false, 40}).meets;
      made->rest();
      made_by[rank] = made->own_speed()->rank_steps()[rank];
    });
    for (const std::size_t i : {0U, 19U, 32U, 48U}) {
      double mean = 0;
      for (std::size_t rank = first_is_new ? 1 : 0; rank < (first_is_new ? 4 : 3); ++rank) {
        const bool trained = !dedicated || rank > 1;  // the first one that is left was the server
        mean += trained ? left[rank].parameters[i] / (dedicated ? 2.0 : 3.0) : 0;
      }
      for (const auto& of_rank : found) {
        EXPECT_EQ(of_rank[i], found[0][i]);
        if (served.empty()) {
          EXPECT_NEAR(of_rank[i], mean, 1e-5) << i;
        }
      }
    }
    // A server has its three segments one after the other.
    for (const auto& [at, i] : {std::pair(0U, 0U), {19U, 19U}, {20U, 32U}}) {
      if (!served.empty()) {
        EXPECT_EQ(found[0][i], served[at]) << i;
      }
    }
    EXPECT_GE(std::ranges::min(made_by), 20U);
    EXPECT_GE((made_by[0] + made_by[1] + made_by[2] + made_by[3]) / 4, 40U);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OwnSpeedGroups,
                         testing::Values("ad_psgd", "parameter_server(mode=async)",
                                         "parameter_server(mode=stale, bound=2)",
                                         "parameter_server(mode=async, dedicated=true)"));

}  // namespace
}  // namespace sotto
