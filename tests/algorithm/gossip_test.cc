// Algorithms on graphs, on quadratics whose answers are known, and through a resume.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::Perceptron;
using test::Quadratic;

struct Job {
  const char* algorithm;
  const char* topology;
  const char* mixing = "uniform";
};

std::vector<std::vector<float>> train(const Job& job, int ranks, int steps, double lr) {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    AlgorithmOptions options;
    options.topology = job.topology;
    options.mixing = job.mixing;
    const auto algorithm = make_algorithm("test", job.algorithm, options, worker.buckets(), communicator);
    for (int step = 0; step < steps; ++step) {
      algorithm->step(worker, {static_cast<std::uint64_t>(step), lr, false});
    }
    ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(), worker.parameters().end());
  });
  return ends;
}

class Graphs : public testing::TestWithParam<int> {};

// The sum of |x - (r + 1)|^2 / 2 is least at the mean of the targets. With a constant rate ranks stay a little apart.
TEST_P(Graphs, ComeNearTheLeastSum) {
  const int ranks = GetParam();
  for (const Job& job : {Job{"push_sum", "exponential"},
                         {"push_sum", "star"},
                         {"push_sum", "directed_linear"},
                         {"push_sum(overlap=true)", "exponential"},
                         {"push_sum(overlap=true, synch_freq=2)", "ring"},
                         {"d_psgd", "ring"},
                         {"d_psgd", "star", "metropolis"}}) {
    const auto ends = train(job, ranks, 1500, 0.002);
    const double target = (ranks + 1) / 2.0;
    double mean = 0;
    for (const auto& end : ends) {
      EXPECT_NEAR(end[3], target, 0.25) << job.algorithm << ", " << job.topology << ", " << ranks;
      mean += end[3] / ranks;
    }
    if (std::string_view(job.topology) == "star") continue;
    EXPECT_NEAR(mean, target, 0.02) << job.algorithm << ", " << ranks;
  }
}

TEST_P(Graphs, StopTogetherWhenOneIsAsked) {
  const int ranks = GetParam();
  for (const Job& job :
       {Job{"push_sum", "exponential"}, {"push_sum(overlap=true, synch_freq=3)", "ring"}, {"d_psgd", "ring"}}) {
    std::vector<int> ended(static_cast<std::size_t>(ranks));
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      AlgorithmOptions options;
      options.topology = job.topology;
      const auto algorithm = make_algorithm("test", job.algorithm, options, worker.buckets(), communicator);
      int step = 0;
      const auto go = [&] {
        return !algorithm->step(worker, {static_cast<std::uint64_t>(step), 0.01, step == 7 && communicator.rank() == 0})
                    .stop;
      };
      while (go()) ++step;
      ended[static_cast<std::size_t>(communicator.rank())] = step;
    });
    for (const int step : ended) EXPECT_EQ(step, ended[0]) << job.algorithm;
    EXPECT_GE(ended[0], 7);
    EXPECT_LT(ended[0], 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Graphs, testing::Values(1, 2, 3, 4, 7, 8));

TEST(Graphs, ResumeToTheSameBits) {
  for (const Job& job :
       {Job{"push_sum", "exponential"}, {"push_sum(overlap=true, synch_freq=3)", "star"}, {"d_psgd", "ring"}}) {
    run_threads(3, 20s, [&](Communicator& communicator) {
      const auto clone = communicator.clone();
      Perceptron worker(communicator.rank(), "sgd"), other(communicator.rank(), "sgd");
      AlgorithmOptions options;
      options.topology = job.topology;
      const auto algorithm = make_algorithm("test", job.algorithm, options, worker.buckets(), communicator);
      const auto again = make_algorithm("test", job.algorithm, options, other.buckets(), *clone);
      for (std::uint64_t step = 0; step < 20; ++step) {
        if (step == 11) {
          algorithm->rest();
          std::ranges::copy(worker.parameters(), other.parameters().begin());
          again->enter(step);
          test::Store store;
          algorithm->visit_state(store);
          worker.optimiser().visit_state(store);
          store.reading = true;
          again->visit_state(store);
          other.optimiser().visit_state(store);
        }
        algorithm->step(worker, {step, 0.02, false});
        if (step < 11) continue;
        again->step(other, {step, 0.02, false});
        ASSERT_EQ(0,
                  std::memcmp(other.parameters().data(), worker.parameters().data(), worker.parameters().size_bytes()))
            << job.algorithm << ", " << step;
      }
    });
  }
}

TEST(Graphs, RefuseWhatDoesNotFit) {
  run_threads(2, 20s, [](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto why = [&](const char* algorithm, const char* topology, const char* codec) {
      AlgorithmOptions options;
      options.topology = topology;
      options.codec = codec;
      return message_of([&] { make_algorithm("--algorithm", algorithm, options, worker.buckets(), communicator); });
    };
    EXPECT_NE(why("push_sum(synch_freq=2)", "ring", "none").find("overlap=true"), std::string::npos);
    EXPECT_NE(why("push_sum", "ring", "qsgd").find("models are exchanged"), std::string::npos);
    EXPECT_NE(why("push_sum", "rign", "none").find("did you mean `ring`"), std::string::npos);
  });
  run_threads(3, 20s, [](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    AlgorithmOptions options;
    options.topology = "star";
    EXPECT_NE(message_of([&] {
                make_algorithm("--algorithm", "d_psgd", options, worker.buckets(), communicator);
              }).find("doubly stochastic"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace sotto
