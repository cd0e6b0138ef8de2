// Algorithms on graphs, on quadratics whose answers are known, and through a resume.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/algorithm/witness.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_bytes;
using test::Overheard;
using test::Perceptron;
using test::Quadratic;
using test::Told;

struct GossipJob {
  const char* algorithm;
  const char* topology;
  const char* mixing = "uniform";
  const char* codec = "none";

  AlgorithmOptions options() const {
    AlgorithmOptions options;
    options.topology = test::topology(topology);
    options.mixing = test::mixing(mixing);
    options.phases = test::read_phases(codec);
    return options;
  }
};

std::vector<std::vector<float>> train(const GossipJob& job, int ranks, int steps, double lr) {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto algorithm =
        make_algorithm(test::algorithm(job.algorithm), job.options(), worker.buckets(), communicator);
    for (int step = 0; step < steps; ++step) {
      algorithm->step(worker, {static_cast<std::uint64_t>(step), lr, false});
    }
    ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(), worker.parameters().end());
  });
  return ends;
}

class Graphs : public testing::TestWithParam<int> {};

// The sum of |x - (r + 1)|^2 / 2 is least at the mean of the targets. With a constant rate, ranks stay a little apart.
TEST_P(Graphs, ComeNearTheLeastSum) {
  const int ranks = GetParam();
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                               {"push_sum", "star"},
                               {"push_sum", "directed_linear"},
                               {"push_sum(overlap=true)", "exponential"},
                               {"push_sum(overlap=true, synch_freq=2)", "ring"},
                               {"d_psgd", "ring"},
                               {"d_psgd", "star", "metropolis"},
                               {"choco", "ring"},
                               {"choco", "static_exponential", "uniform", "qsgd(bits=4)"},
                               {"choco", "star", "metropolis", "topk(0.6)"},
                               {"choco(gamma=0.3)", "ring", "uniform", "sign"}}) {
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

// How far the models of the ranks are from their mean at the end: the root of the mean over ranks of |x_r - mean|^2.
double apart(const GossipJob& job, int ranks, std::uint64_t steps, double lr) {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Perceptron worker(communicator.rank(), "sgd(momentum=0.9)");
    const auto algorithm =
        make_algorithm(test::algorithm(job.algorithm), job.options(), worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < steps; ++step) algorithm->step(worker, {step, lr, false});
    const auto found = worker.parameters();
    ends[static_cast<std::size_t>(communicator.rank())].assign(found.begin(), found.end());
  });
  double sum = 0;
  for (std::size_t i = 0; i < ends[0].size(); ++i) {
    double mean = 0;
    for (const auto& end : ends) mean += static_cast<double>(end[i]) / ranks;
    for (const auto& end : ends) sum += (end[i] - mean) * (end[i] - mean) / ranks;
  }
  return std::sqrt(sum);
}

// A selection that samples or estimates brings models together as well as the exact one, and much better than with the
// gamma for the worst vector, 0.5 / sqrt(2048) for the largest segment, which was the default.
TEST(Graphs, ASampledSelectionMixesAsTheExactOneDoes) {
  const auto distance = [](const char* algorithm, const char* codec) {
    return apart({algorithm, "ring", "uniform", codec}, 6, 60, 0.05);
  };
  const double exact = distance("choco", "topk(0.05)");
  const double none = distance("choco(gamma=0.000001)", "none");
  const double worst = distance("choco(gamma=0.011)", "sampled_topk(0.05)");
  EXPECT_LT(exact, 0.5 * none);
  for (const char* codec : {"sampled_topk(0.05)", "threshold(keep=0.05)", "sampled_topk(0.05) | int8"}) {
    const double found = distance("choco", codec);
    EXPECT_LT(found, 1.25 * exact) << codec;
    EXPECT_LT(found, 0.7 * worst) << codec;
  }
}

// Without loss, neighbours know each model exactly and move all the way, so choco mixes as push_sum does.
TEST_P(Graphs, WithoutLossChocoIsPushSum) {
  for (const char* topology : {"ring", "static_exponential", "star"}) {
    const auto wanted = train({"push_sum", topology}, GetParam(), 60, 0.05);
    const auto found = train({"choco", topology}, GetParam(), 60, 0.05);
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(found[r][i], wanted[r][i], 1e-4) << topology << ", rank " << r;
    }
  }
}

// The bytes of a round to one peer, by docs/algorithms/graphs.md.
std::size_t bytes_to_a_peer(const std::string& codec, const Worker& worker) {
  return message_bytes(codec, worker.buckets()) + 16 * worker.buckets().size();
}

TEST(Graphs, SendWhatTheFormulaSays) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                                 {"push_sum", "star", "uniform", "f16"},
                                 {"push_sum(overlap=true)", "ring"},
                                 {"d_psgd", "complete", "uniform", "bf16"},
                                 {"choco", "ring", "uniform", "qsgd(bits=4)"}}) {
      const Topology topology = make_topology(test::topology(job.topology), ranks);
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        Perceptron worker(communicator.rank(), "sgd");
        const auto algorithm =
            make_algorithm(test::algorithm(job.algorithm), job.options(), worker.buckets(), communicator);
        const std::size_t message = bytes_to_a_peer(job.codec, worker);
        for (std::size_t step = 0; step < 4; ++step) {
          const std::uint64_t before = communicator.traffic().bytes_sent;
          algorithm->step(worker, {step, 0.01, false});
          algorithm->drain();
          const std::size_t peers = topology.round(step).out(communicator.rank()).size();
          EXPECT_EQ(communicator.traffic().bytes_sent - before, peers * message)
              << job.algorithm << ", " << job.topology << ", " << ranks;
        }
      });
    }
  }
}

// Buckets leave while others are computed, or all together, or everything is one bucket: the bits are the same.
TEST_P(Graphs, DoTheSameHoweverItIsCut) {
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                               {"push_sum", "star", "uniform", "bf16"},
                               {"push_sum(overlap=true)", "exponential"},
                               {"d_psgd", "ring", "uniform", "f16"},
                               {"choco", "ring"},
                               {"choco", "static_exponential", "uniform", "sign(block=16)"}}) {
    for (const char* optimiser : {"sgd(momentum=0.9)", "adam", "signum"}) {
      const auto run = [&](bool overlap, std::size_t bucket_bytes) {
        std::vector<std::vector<float>> ends(static_cast<std::size_t>(GetParam()));
        run_threads(GetParam(), 20s, [&](Communicator& communicator) {
          Perceptron worker(communicator.rank(), optimiser, bucket_bytes);
          AlgorithmOptions options = job.options();
          options.overlap = overlap;
          const auto algorithm =
              make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
          for (std::uint64_t step = 0; step < 8; ++step) algorithm->step(worker, {step, 0.05, false});
          const auto found = worker.parameters();
          ends[static_cast<std::size_t>(communicator.rank())].assign(found.begin(), found.end());
        });
        return ends;
      };
      const auto wanted = run(false, 1U << 20U);
      EXPECT_EQ(run(true, 1U << 20U), wanted) << job.algorithm << ", " << job.codec << ", " << optimiser;
      EXPECT_EQ(run(true, 1024), wanted) << job.algorithm << ", " << job.codec << ", " << optimiser;
      EXPECT_EQ(run(false, 1024), wanted) << job.algorithm << ", " << job.codec << ", " << optimiser;
    }
  }
}

// Backward continues after the first bucket only when that has left. It would wait for ever if all buckets left at the
// end.
TEST(Graphs, SendBucketsWhileOthersAreComputed) {
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"}, {"choco", "ring"}}) {
    run_threads(2, 20s, [&](Communicator& communicator) {
      std::atomic<bool> has_left = false;
      Overheard overheard(communicator, [&](std::size_t /*bytes*/) {
        has_left = true;
        has_left.notify_all();
      });
      Told worker(communicator.rank(), {.ready = [&](std::size_t bucket) {
                    if (bucket == 0) has_left.wait(false);
                  }});
      const auto algorithm = make_algorithm(test::algorithm(job.algorithm), job.options(), worker.buckets(), overheard);
      algorithm->step(worker, {0, 0.1, false});
    });
  }
}

TEST_P(Graphs, StopTogetherWhenOneIsAsked) {
  const int ranks = GetParam();
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                               {"push_sum(overlap=true, synch_freq=3)", "ring"},
                               {"d_psgd", "ring"},
                               {"choco", "ring"}}) {
    std::vector<int> ended(static_cast<std::size_t>(ranks));
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      AlgorithmOptions options;
      options.topology = test::topology(job.topology);
      const auto algorithm = make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
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

INSTANTIATE_TEST_SUITE_P(Ranks, Graphs, testing::Values(1, 2, 3, 4, 8));

TEST(Graphs, ResumeToTheSameBits) {
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                               {"push_sum(overlap=true)", "star"},
                               {"push_sum(overlap=true, synch_freq=3)", "star"},
                               {"d_psgd", "ring"},
                               {"choco", "ring", "uniform", "topk(0.05) | qsgd(bits=4)"},
                               {"choco", "star", "uniform", "svd | topk(0.5)"}}) {
    for (const std::uint64_t resumed : {0U, 11U}) {
      run_threads(3, 20s, [&](Communicator& communicator) {
        const auto clone = communicator.clone();
        Perceptron worker(communicator.rank(), "sgd"), other(communicator.rank(), "sgd");
        const AlgorithmOptions options = job.options();
        const auto algorithm = make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
        const auto again = make_algorithm(test::algorithm(job.algorithm), options, other.buckets(), *clone);
        for (std::uint64_t step = 0; step < 20; ++step) {
          if (step == resumed) {
            algorithm->drain();
            std::ranges::copy(worker.parameters(), other.parameters().begin());
            again->enter(step);
            test::hand_over(*algorithm, *again);
            test::hand_over(worker.optimiser(), other.optimiser());
          }
          algorithm->step(worker, {step, 0.02, false});
          algorithm->drain();  // with synch_freq above 1, a round is added only once it has arrived
          if (step < resumed) continue;
          again->step(other, {step, 0.02, false});
          again->drain();
          ASSERT_EQ(
              0, std::memcmp(other.parameters().data(), worker.parameters().data(), worker.parameters().size_bytes()))
              << job.algorithm << ", " << step;
        }
      });
    }
  }
}

// The worker fails before any bucket has left (0), or when some are on their way (2).
TEST(Graphs, ReportTheErrorOfTheWorker) {
  for (const GossipJob& job : {GossipJob{"push_sum", "exponential"},
                               {"push_sum(overlap=true)", "exponential"},
                               {"d_psgd", "ring"},
                               {"choco", "ring"}}) {
    for (const std::uint64_t failing : {0U, 2U}) {
      const auto body = [&](Communicator& communicator) {
        Quadratic worker(communicator.rank());
        worker.fails_at = failing;
        const auto algorithm =
            make_algorithm(test::algorithm(job.algorithm), job.options(), worker.buckets(), communicator);
        for (std::uint64_t step = 0; step <= failing; ++step) {
          worker.fails = step == failing && communicator.rank() == 1;
          algorithm->step(worker, {step, 0.1, false});
        }
        algorithm->drain();
      };
      EXPECT_THROW(run_threads(2, 20s, body), NumericError) << job.algorithm << ", " << failing;
    }
  }
}

// The bytes follow the number of peers of each phase, and a resume in any phase continues with the same bits.
TEST(Graphs, ChangeTheNumberOfPeersOnTheWay) {
  for (const char* expression : {"push_sum", "push_sum(overlap=true)"}) {
    run_threads(8, 20s, [&](Communicator& communicator) {
      const auto clone = communicator.clone();
      AlgorithmOptions options;
      options.topologies = by_steps(read_peer_schedule("test", "0:1,1:2,3:4", test::topology("exponential"), 8), {3});
      Perceptron worker(communicator.rank(), "sgd"), other(communicator.rank(), "sgd");
      const auto algorithm = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
      const auto again = make_algorithm(test::algorithm(expression), options, other.buckets(), *clone);
      const std::size_t message = bytes_to_a_peer("none", worker);
      for (std::uint64_t step = 0; step < 14; ++step) {
        if (step == 5) {
          algorithm->drain();
          std::ranges::copy(worker.parameters(), other.parameters().begin());
          again->enter(step);
          test::hand_over(*algorithm, *again);
          test::hand_over(worker.optimiser(), other.optimiser());
        }
        const std::uint64_t before = communicator.traffic().bytes_sent;
        algorithm->step(worker, {step, 0.02, false});
        algorithm->drain();
        const std::size_t peers = step < 3 ? 1 : step < 9 ? 2 : 4;
        EXPECT_EQ(communicator.traffic().bytes_sent - before, peers * message) << expression << ", " << step;
        if (step < 5) continue;
        again->step(other, {step, 0.02, false});
        ASSERT_EQ(0,
                  std::memcmp(other.parameters().data(), worker.parameters().data(), worker.parameters().size_bytes()))
            << expression << ", " << step;
      }
    });
  }
}

}  // namespace
}  // namespace sotto
