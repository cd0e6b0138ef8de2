// What gossip keeps exactly: the mean model's path, and the sums with what is on its way.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/threads.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

class GossipExactly : public testing::TestWithParam<int> {};

// Where mixing is doubly stochastic it moves no mean, and gradients of |x - a_r|^2 / 2 have that of the mean model: it
// makes steps of gradient descent towards the mean of all a_r, whatever the graph is, and whatever a codec leaves out.
TEST_P(GossipExactly, TheMeanModelDescendsAsOne) {
  const int ranks = GetParam();
  struct Job {
    const char* algorithm;
    const char* topology;
    const char* mixing = "uniform";
    const char* codec = "none";
  };
  for (const Job& job : {Job{"push_sum", "exponential"},
                         {"d_psgd", "ring"},
                         {"d_psgd", "star", "metropolis", "f16"},
                         {"choco", "ring", "uniform", "topk(0.4)"},
                         {"choco", "star", "metropolis", "qsgd(bits=4)"}}) {
    constexpr double lr = 0.05;
    constexpr int steps = 40;
    std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      AlgorithmOptions options{.codec = job.codec, .topology = job.topology, .mixing = job.mixing};
      Quadratic worker(communicator.rank(), "sgd(momentum=0)");
      const auto made = make_algorithm("test", job.algorithm, options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < steps; ++step) made->step(worker, {step, lr, false});
      ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(),
                                                                 worker.parameters().end());
    });
    const double wanted = (ranks + 1) / 2.0 * (1 - std::pow(1 - lr, steps));
    for (const std::size_t i : {0U, 19U, 32U, 48U}) {
      double mean = 0;
      for (const auto& end : ends) mean += end[i] / ranks;
      EXPECT_NEAR(mean, wanted, 1e-5 * ranks)
          << job.algorithm << ", " << job.topology << ", " << job.codec << ", " << i;
    }
  }
}

// Without steps of their own: all x and w, with those on their way, on graphs where w is not 1.
TEST_P(GossipExactly, SumsStayWithWhatIsOnItsWay) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  for (const char* topology : {"star", "directed_exponential(peers=1)", "directed_linear"}) {
    constexpr std::uint64_t steps = 13;
    struct Sums {
      double x = 0, weight = 0;
    };
    std::vector<std::vector<Sums>> found(ranks, std::vector<Sums>(steps));
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      AlgorithmOptions options{.codec = "f16", .topology = topology};
      Quadratic worker(communicator.rank(), "sgd(momentum=0)");
      for (std::size_t i = 0; i < 20; ++i) {
        worker.parameters()[i] = std::sin(static_cast<float>(3 * rank + i)) + static_cast<float>(rank);
      }
      const auto made =
          make_algorithm("test", "push_sum(overlap=true, synch_freq=3)", options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < steps; ++step) {
        made->step(worker, {step, 0, false});
        made->rest();
        test::Store store;
        made->visit_state(store);
        const auto sum = [&](const char* name) {
          const auto& values = store.floats.at(name);
          return std::accumulate(values.begin(), values.end(), 0.0);
        };
        const auto weight = [&](const char* name) { return std::bit_cast<double>(store.numbers.at(name)); };
        found[rank][step] = {sum("push_sum.x") + sum("push_sum.arriving"),
                             weight("push_sum.weight") + weight("push_sum.arriving_weight")};
      }
    });
    const auto total = [&](std::uint64_t step, double Sums::*part) {
      double all = 0;
      for (const auto& rank : found) all += rank[step].*part;
      return all;
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
      EXPECT_NEAR(total(step, &Sums::x), total(0, &Sums::x), 2e-5 * static_cast<double>(ranks * ranks))
          << topology << ", " << step;
      EXPECT_NEAR(total(step, &Sums::weight), static_cast<double>(ranks), 1e-12 * static_cast<double>(ranks))
          << topology << ", " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GossipExactly, testing::Values(1, 2, 3, 4, 7, 8), testing::PrintToStringParamName());

}  // namespace
}  // namespace sotto
