// Ranks at their own speed whose group changes: each continues from where it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/worker.h"
#include "sotto/comm/emulated/threads.h"
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

// An algorithm and an optimiser.
class OwnSpeedGroups : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

AlgorithmOptions coded() { return {.phases = test::read_phases("f16"), .topology = test::topology("star")}; }

// The last rank fails; what the others keep is read while nothing changes it any more.
std::vector<Left> leave(const char* algorithm, const char* optimiser, int ranks) {
  std::vector<Left> left(static_cast<std::size_t>(ranks));
  std::latch all_there(ranks);
  const auto run = [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Quadratic worker(rank, optimiser);
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
  const auto [algorithm, optimiser] = GetParam();
  const bool serves = std::string_view(algorithm).starts_with("parameter_server");
  const bool dedicated = std::string_view(algorithm).find("dedicated") != std::string_view::npos;
  const bool of_workers = std::string_view(optimiser) != "adagrad";  // each makes its own momentum
  for (const bool first_is_new : {false, true}) {
    std::vector<Left> left = leave(algorithm, optimiser, 4);
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
      Quadratic worker(communicator.rank(), optimiser);
      const auto made = make_algorithm(test::algorithm(algorithm), coded(), worker.buckets(), communicator);
      std::ranges::fill(worker.parameters(), 99.0F);
      // A new rank has those of the first one that was there before.
      test::Store had = left[is_new ? (first_is_new ? 1 : 0) : rank].buffers;
      worker.optimiser().visit_buffers(had);
      if (!is_new) {
        std::ranges::copy(own.parameters, worker.parameters().begin());
        const FormerRank self{static_cast<int>(rank) - (first_is_new ? 1 : 0), 4, &own.state};
        made->elastic()->take_over({&self, 1});
      }
      made->elastic()->sync_after_change(worker, is_new);
      found[rank].assign(worker.parameters().begin(), worker.parameters().end());
      test::Store buffers;
      worker.optimiser().visit_buffers(buffers);
      const bool serves_on = rank == 0 && !first_is_new;
      const bool trains_on = !is_new && (!dedicated || rank > (first_is_new ? 1 : 0));
      for (const auto& [name, values] : buffers.floats) {
        const bool any = std::ranges::any_of(values, [](float value) { return value != 0; });
        if (serves) {
          EXPECT_EQ(any, of_workers ? trains_on : serves_on) << "rank " << rank << ", " << name;
          EXPECT_TRUE(!any || values == had.floats.at(name)) << "rank " << rank << ", " << name;
        }
      }
      made->own_speed()->begin_at(20);
      EXPECT_EQ(made->own_speed()->rate_step(), 20U);
      communicator.barrier();  // the steps of others count from here on
      std::uint64_t step = 20;
      for (bool meets = false; !meets; ++step) meets = made->step(worker, {step, 0.01, false, 40}).meets;
      made->drain();
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
                         testing::Combine(testing::Values("ad_psgd", "parameter_server(mode=async)",
                                                          "parameter_server(mode=stale, bound=2)",
                                                          "parameter_server(mode=async, dedicated=true)"),
                                          testing::Values("adagrad", "adam", "sgd(momentum=0.5)")));

// The state of each rank of a group whose servers have begun.
std::vector<test::Store> states_of(const char* algorithm, int ranks) {
  std::vector<test::Store> states(static_cast<std::size_t>(ranks));
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    test::Store& own = states[static_cast<std::size_t>(communicator.rank())];
    make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator)->visit_state(own);
    if (const auto begun = own.numbers.find("parameter_server/server/begun"); begun != own.numbers.end()) {
      begun->second = 1;
    }
    own.reading = true;
  });
  return states;
}

constexpr int fresh = -1;

struct Case {
  const char *algorithm, *optimiser;
  int ranks;                // of the former group
  std::vector<int> former;  // the former number of each rank of the new one
  std::vector<bool> keeps;  // whether each continues with the buffers that it had
};

void expect_kept(const Case& one) {
  std::vector<test::Store> states = states_of(one.algorithm, one.ranks);
  run_threads(static_cast<int>(one.former.size()), 60s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const int former = one.former[rank];
    Quadratic worker(communicator.rank(), one.optimiser);
    EachVector ones([](std::vector<float>& values) { std::ranges::fill(values, 1.0F); });
    worker.optimiser().visit_buffers(ones);  // a new rank has got those of another one
    const auto made = make_algorithm(test::algorithm(one.algorithm), {}, worker.buckets(), communicator);
    if (former != fresh) {
      const FormerRank self{former, one.ranks, &states[static_cast<std::size_t>(former)]};
      made->elastic()->take_over({&self, 1});
    }
    made->elastic()->sync_after_change(worker, former == fresh);
    EachVector look([&](std::vector<float>& values) {
      EXPECT_EQ(values, std::vector<float>(values.size(), one.keeps[rank] ? 1.0F : 0.0F))
          << one.algorithm << ", " << one.optimiser << ", rank " << former << " of " << one.ranks << ", now " << rank
          << " of " << one.former.size();
    });
    worker.optimiser().visit_buffers(look);
  });
}

// A worker that trains on keeps the momentum of its own gradients, and a server that keeps its place the buffers of its
// shard. All others begin with zeros.
TEST(ServedGroups, KeepTheBuffersOfWhatGoesOn) {
  const char* const sync = "parameter_server";
  const char* const async = "parameter_server(mode=async)";
  const char* const two = "parameter_server(mode=stale, servers=2)";
  const char* const dedicated = "parameter_server(mode=async, dedicated=true)";
  const char* const sgd = "sgd(momentum=0.5)";
  const std::vector<Case> cases{
      {async, sgd, 4, {0, 1, 2, fresh}, {true, true, true, false}},
      {async, sgd, 4, {fresh, 1, 2, 3}, {false, true, true, true}},
      {async, "adam", 4, {0, 1, fresh, 3}, {true, true, false, true}},
      {async, "adam", 2, {1}, {true}},
      {async, "signum", 4, {1, 2, 3}, {true, true, true}},
      {async, "adagrad", 4, {0, 1, 2, fresh}, {true, false, false, false}},
      {async, "adagrad", 4, {1, 2, 3}, {false, false, false}},
      {two, sgd, 4, {1, 2, fresh}, {true, true, false}},
      {two, "adagrad", 4, {0, 2, 3}, {true, false, false}},  // rank 1 has another server's shard now
      {two, "adagrad", 4, {1, 2, 3}, {false, false, false}},
      {dedicated, sgd, 4, {0, 1, 3, fresh}, {false, true, true, false}},
      {dedicated, sgd, 4, {1, 2, 3}, {false, true, true}},                // the first one serves now
      {dedicated, sgd, 4, {fresh, 0, 1, 2}, {false, false, true, true}},  // the second one served
      {dedicated, "adagrad", 4, {0, 1, 2}, {true, false, false}},
      {dedicated, sgd, 3, {0, 1}, {false, false}},  // one worker is left: the server makes the momentum
      {async, sgd, 2, {1}, {true}},                 // and that is its own
      {async, sgd, 2, {0}, {true}},
      {async, sgd, 1, {0, fresh}, {true, false}},
      {async, sgd, 1, {fresh, 0}, {false, true}},
      {async, "adagrad", 2, {1}, {false}},
      {async, "adagrad", 1, {fresh, 0}, {false, false}},
      {sync, sgd, 3, {0, 1, fresh}, {true, false, false}},  // the momentum of the mean is the server's
      {sync, "signum", 3, {0, 1, fresh}, {true, true, false}},
  };
  for (const Case& one : cases) expect_kept(one);
}

}  // namespace
}  // namespace sotto
