// Gossip keeps two things exactly: the path of the mean model, and the sums, counting messages on their way.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <latch>
#include <numeric>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/optim/averaged.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

class GossipExactly : public testing::TestWithParam<int> {};

// Doubly stochastic mixing does not move the mean, and the mean of the gradients of |x - a_r|^2 / 2 is the gradient at
// the mean model. So the mean model takes steps of gradient descent towards the mean of all a_r, whatever the graph is
// and whatever a codec leaves out.
TEST_P(GossipExactly, TheMeanModelDescendsAsOne) {
  const int ranks = GetParam();
  struct Descent {
    const char* algorithm;
    const char* topology;
    const char* mixing = "uniform";
    const char* codec = "none";
  };
  for (const Descent& job : {Descent{"push_sum", "exponential"},
                             {"d_psgd", "ring"},
                             {"d_psgd", "star", "metropolis", "f16"},
                             {"choco", "ring", "uniform", "topk(0.4)"},
                             {"choco", "star", "metropolis", "qsgd(bits=4)"}}) {
    constexpr double lr = 0.05;
    constexpr int steps = 40;
    std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      AlgorithmOptions options{.phases = test::read_phases(job.codec),
                               .topology = test::topology(job.topology),
                               .mixing = test::mixing(job.mixing)};
      Quadratic worker(communicator.rank(), "sgd(momentum=0)");
      const auto made = make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
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

struct Mass {
  double x = 0, weight = 0;
};

// The mass that a rank holds, with all that has arrived and is not added yet. REQUIRES drain().
Mass mass_of(Algorithm& algorithm) {
  test::Store store;
  algorithm.visit_state(store);
  Mass mass;
  for (const auto& [name, values] : store.floats) {
    if (name.ends_with(".x") || name.ends_with(".arriving")) mass.x += std::reduce(values.begin(), values.end(), 0.0);
  }
  for (const auto& [name, value] : store.numbers) {
    if (name.ends_with("weight")) mass.weight += std::bit_cast<double>(value);
  }
  return mass;
}

// With a rate of 0, the sums of all x and of all w, counting those on their way, stay the same on graphs where w is not
// 1.
TEST_P(GossipExactly, SumsStayWithWhatIsOnItsWay) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  for (const char* topology : {"star", "directed_exponential(peers=1)", "directed_linear"}) {
    constexpr std::uint64_t steps = 13;
    std::vector<std::vector<Mass>> found(ranks, std::vector<Mass>(steps));
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      AlgorithmOptions options{.phases = test::read_phases("f16"), .topology = test::topology(topology)};
      Quadratic worker(communicator.rank(), "sgd(momentum=0)");
      for (std::size_t i = 0; i < 20; ++i) {
        worker.parameters()[i] = std::sin(static_cast<float>(3 * rank + i)) + static_cast<float>(rank);
      }
      const auto made = make_algorithm(test::algorithm("push_sum(overlap=true, synch_freq=3)"), options,
                                       worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < steps; ++step) {
        made->step(worker, {step, 0, false});
        made->drain();
        found[rank][step] = mass_of(*made);
      }
    });
    const auto total = [&](std::uint64_t step, double Mass::*part) {
      double all = 0;
      for (const auto& rank : found) all += rank[step].*part;
      return all;
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
      EXPECT_NEAR(total(step, &Mass::x), total(0, &Mass::x), 2e-5 * static_cast<double>(ranks * ranks))
          << topology << ", " << step;
      EXPECT_NEAR(total(step, &Mass::weight), static_cast<double>(ranks), 1e-12 * static_cast<double>(ranks))
          << topology << ", " << step;
    }
  }
}

// A pull towards zero takes rate * pull * z off each rank's x, where z is the model that the rank shows, however small
// its share of the mass is. So the sum of all x, counting those on their way, falls by rate * pull * (sum of all z).
TEST_P(GossipExactly, WeightDecayIsOfTheModelThatIsShown) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  constexpr double lr = 0.1, pull = 0.2;
  struct Descent {
    const char* algorithm;
    const char* topology;
    const char* optimiser;
  };
  for (const Descent& job :
       {Descent{"push_sum", "star", "sgd(momentum=0, weight-decay=0.2)"},
        {"push_sum(overlap=true)", "exponential", "sgd(momentum=0, weight-decay=0.2)"},
        {"push_sum(overlap=true)", "star", "adamw(weight-decay=0.2)"},
        {"push_sum(overlap=true, synch_freq=3)", "directed_linear", "dgc(weight-decay=0.2, decay-momentum=0)"},
        {"choco", "star", "sign(weight-decay=0.2)"}}) {
    constexpr std::uint64_t steps = 12;
    std::vector<std::vector<double>> x(ranks, std::vector<double>(steps + 1)), shown = x, weight = x;
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      AlgorithmOptions options{.topology = test::topology(job.topology)};
      Quadratic worker(communicator.rank(), job.optimiser, 0);
      std::ranges::fill(worker.parameters().first(20), 1.0F);
      const auto made = make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
      x[rank][0] = 20;
      weight[rank][0] = 1;
      for (std::uint64_t step = 0; step < steps; ++step) {
        shown[rank][step] = std::reduce(worker.parameters().begin(), worker.parameters().end(), 0.0);
        made->step(worker, {step, lr, false});
        made->drain();
        const Mass mass = mass_of(*made);
        x[rank][step + 1] = mass.x;
        weight[rank][step + 1] = mass.weight;
      }
    });
    const auto sum = [](const std::vector<std::vector<double>>& of, std::uint64_t step) {
      double all = 0;
      for (const auto& rank : of) all += rank[step];
      return all;
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
      EXPECT_NEAR(sum(x, step + 1), sum(x, step) - lr * pull * sum(shown, step), 1e-4 * static_cast<double>(ranks))
          << job.algorithm << ", " << job.topology << ", " << step;
      EXPECT_NEAR(sum(weight, step + 1), static_cast<double>(ranks), 1e-9) << job.algorithm << ", " << step;
    }
  }
}

// x_i becomes sum_j W_ij x_j - lr (gradient of the loss and the pull, both at x_i).
TEST(GossipExactly, DPsgdTakesThePullWhereItTakesTheGradient) {
  run_threads(3, 20s, [](Communicator& communicator) {
    AlgorithmOptions options{.topology = test::topology("ring")};
    Quadratic worker(communicator.rank(), "sgd(momentum=0, weight-decay=0.5)", 0);
    const auto mine = static_cast<float>(communicator.rank());
    std::ranges::fill(worker.parameters().first(20), mine);
    make_algorithm(test::algorithm("d_psgd"), options, worker.buckets(), communicator)->step(worker, {0, 0.1, false});
    EXPECT_NEAR(worker.parameters()[7], 1 - 0.05 * mine, 1e-6);
  });
}

// A worker whose iterates are averaged.
class Averaging final : public Quadratic {
 public:
  explicit Averaging(int rank)
      : Quadratic(rank, "sgd(momentum=0)", 0),
        optimiser_(make_optimiser(test::optimiser("sgd(momentum=0)"), test::flat(parameters().size())), {.tau = 1},
                   parameters().size()) {}
  Optimiser& optimiser() override { return optimiser_; }

 private:
  Averaged optimiser_;
};

// The vector that is evaluated is a model, though x is only a share of one.
TEST_P(GossipExactly, IteratesAreModels) {
  for (const char* algorithm : {"push_sum", "push_sum(overlap=true)", "choco(gamma=0.5)"}) {
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      AlgorithmOptions options{.topology = test::topology("star")};
      Averaging worker(communicator.rank());
      std::ranges::fill(worker.parameters().first(20), 3.0F);
      const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < 9; ++step) {
        made->step(worker, {step, 0.1, false});
        ASSERT_NEAR(worker.parameters()[5], 3, 1e-4) << algorithm << ", " << step;
        ASSERT_NEAR(worker.optimiser().to_evaluate()[5], 3, 1e-4) << algorithm << ", " << step;
      }
    });
  }
}

// Mixing that is not doubly stochastic changes x and w alike. A codec delays a part of the change of x; once that has
// arrived, all models are the same again.
TEST_P(GossipExactly, TheSameModelsStayTheSameUnderAnyGamma) {
  for (const char* codec : {"none", "sign"}) {
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      AlgorithmOptions options{.phases = test::read_phases(codec), .topology = test::topology("star")};
      Quadratic worker(communicator.rank(), "sgd(momentum=0)", 0);
      const auto wanted = [](std::size_t i) { return 3 + std::sin(static_cast<float>(i)); };
      for (std::size_t i = 0; i < 20; ++i) worker.parameters()[i] = wanted(i);
      const auto made = make_algorithm(test::algorithm("choco(gamma=0.3)"), options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < 200; ++step) {
        made->step(worker, {step, 0.1, false});
        if (codec == std::string_view("sign") && step < 199) continue;
        for (std::size_t i = 0; i < 20; ++i) ASSERT_NEAR(worker.parameters()[i], wanted(i), 1e-3) << codec << step;
      }
    });
  }
}

// Rank 1 begins only after rank 0 has made as many steps without it as it may.
TEST(GossipExactly, ARoundIsWaitedForWhenItIsAsOldAsItMayBe) {
  constexpr std::uint64_t most = 4;
  std::latch begins(1);
  run_threads(2, 20s, [&](Communicator& communicator) {
    AlgorithmOptions options{.topology = test::topology("ring")};
    Quadratic worker(communicator.rank(), "sgd(momentum=0)", 0);
    std::ranges::fill(worker.parameters().first(20), 4.0F * static_cast<float>(communicator.rank()));
    const auto made = make_algorithm(test::algorithm("push_sum(overlap=true, synch_freq=4)"), options, worker.buckets(),
                                     communicator);
    if (communicator.rank() == 1) begins.wait();
    for (std::uint64_t step = 0; step <= most; ++step) {
      made->step(worker, {step, 0, false});
      if (communicator.rank() == 0 && step + 1 == most) {
        EXPECT_EQ(worker.parameters()[0], 0);
        begins.count_down();
      }
    }
    EXPECT_EQ(worker.parameters()[0], 2);
    made->drain();
  });
}

TEST(GossipExactly, WhatHasComeIsAddedInTheNextStep) {
  run_threads(2, 20s, [](Communicator& communicator) {
    AlgorithmOptions options{.topology = test::topology("ring")};
    Quadratic worker(communicator.rank(), "sgd(momentum=0)", 0);
    std::ranges::fill(worker.parameters().first(20), 4.0F * static_cast<float>(communicator.rank()));
    const auto made = make_algorithm(test::algorithm("push_sum(overlap=true, synch_freq=100)"), options,
                                     worker.buckets(), communicator);
    made->step(worker, {0, 0, false});
    EXPECT_EQ(worker.parameters()[0], 4.0F * static_cast<float>(communicator.rank()));
    made->drain();
    const std::uint64_t sent = communicator.traffic().bytes_sent;
    made->step(worker, {1, 0, false});
    EXPECT_EQ(worker.parameters()[0], 2);
    made->drain();
    EXPECT_EQ(communicator.traffic().bytes_sent, sent);  // only one round every 100 steps
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GossipExactly, testing::Values(1, 2, 3, 4, 7, 8), testing::PrintToStringParamName());

}  // namespace
}  // namespace sotto
