// Local steps, SlowMo and DiLoCo on quadratics: against closed forms, each other, and a model of their equations.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;
using Path = std::vector<std::vector<float>>;  // a rank's parameters after each step

constexpr double descent_rate = 0.1;
const std::string plain = "sgd(momentum=0)";

std::vector<Path> train(const std::string& algorithm, int ranks, std::uint64_t steps,
                        const std::string& optimiser = plain, bool overlap = true, bool curved = false) {
  std::vector<Path> paths(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Quadratic worker(rank, optimiser, curved ? 0.5F * static_cast<float>(rank + 1) : 1.0F);
    AlgorithmOptions options;
    options.overlap = overlap;
    const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < steps; ++step) {
      EXPECT_FALSE(made->step(worker, {step, descent_rate, false}).stop);
      paths[static_cast<std::size_t>(rank)].emplace_back(worker.parameters().begin(), worker.parameters().end());
    }
  });
  return paths;
}

void expect_near(const std::vector<Path>& a, const std::vector<Path>& b, float within, std::uint64_t every = 1) {
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    for (std::size_t step = every - 1; step < a[rank].size(); step += every) {
      for (std::size_t i = 0; i < a[rank][step].size(); ++i) {
        ASSERT_NEAR(a[rank][step][i], b[rank][step][i], within) << "rank " << rank << ", step " << step << ", " << i;
      }
    }
  }
}

class Local : public testing::TestWithParam<int> {};

// start - mean(lr g) and x - lr mean(g) round differently, so the last bits may differ.
TEST_P(Local, WithOneStepIsSync) {
  const int ranks = GetParam();
  expect_near(train("local(h=1)", ranks, 20), train("sync", ranks, 20), 1e-6F * static_cast<float>(ranks));
  expect_near(train("local(h=7, after=20)", ranks, 20), train("sync", ranks, 20), 1e-6F * static_cast<float>(ranks));
}

// From s, k local steps of rank r lead to a_r + (1 - lr)^k (s - a_r).
TEST_P(Local, FollowsTheClosedForm) {
  const int ranks = GetParam();
  constexpr std::uint64_t h = 5;
  const auto paths = train("local(h=5)", ranks, 23);
  const double mean = (ranks + 1) / 2.0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t step = 0; step < 23; ++step) {
      const std::uint64_t done = step + 1, rounds = done / h, own = done % h;
      const double start = mean * (1 - std::pow(1 - descent_rate, static_cast<double>(h * rounds)));
      const double target = rank + 1;
      const double x = target + std::pow(1 - descent_rate, static_cast<double>(own)) * (start - target);
      const auto& found = paths[static_cast<std::size_t>(rank)][step];
      for (const std::size_t i : {0U, 19U, 32U, 48U})
        EXPECT_NEAR(found[i], x, 2e-6 * (ranks + 1)) << rank << ", " << step;
      EXPECT_EQ(found[20], 0.0F) << "padding";
    }
  }
}

// h local steps move rank r the share k_r = 1 - (1 - lr c_r)^h of the way towards a_r. The mean of these moves is zero
// at sum(k a) / sum(k). Where the curvatures c_r differ, that is the least sum for h = 1 only.
TEST_P(Local, EndsWhereLocalStepsHaveTheirFixedPoint) {
  const int ranks = GetParam();
  for (const int h : {1, 6}) {
    const auto paths = train("local(h=" + std::to_string(h) + ")", ranks, 360, plain, true, true);
    double sum = 0, shares = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const double share = 1 - std::pow(1 - descent_rate * 0.5 * (rank + 1), h);
      sum += share * (rank + 1);
      shares += share;
    }
    for (const Path& path : paths) EXPECT_NEAR(path.back()[3], sum / shares, 1e-4) << h;
  }
}

TEST_P(Local, PostLocalStepsBeginBehindTheirTime) {
  const int ranks = GetParam();
  const auto paths = train("local(h=4, after=5)", ranks, 13);
  for (std::size_t step = 0; step < 13; ++step) {
    const bool together = step < 5 || step == 8 || step == 12;
    EXPECT_EQ(ranks == 1 || together, paths.front()[step] == paths.back()[step]) << step;
  }
}

TEST_P(Local, IsWhatOthersAreWithoutMomentum) {
  const int ranks = GetParam();
  const auto local = train("local(h=4)", ranks, 18, "sgd(momentum=0.5)");
  expect_near(train("slowmo(h=4, momentum=0, lr=1)", ranks, 18, "sgd(momentum=0.5)"), local,
              1e-6F * static_cast<float>(ranks));
  EXPECT_EQ(train("diloco(h=4, momentum=0, lr=1)", ranks, 18, "sgd(momentum=0.5)"), local);  // to the last bit
}

// The options of a run. model_of() computes the same equations in doubles, for one coordinate of each bucket.
struct Outer {
  double lr, momentum;
  bool slowmo;
  std::size_t h, overlap;
  double alpha;
  std::array<std::size_t, 3> first;  // the step after which each bucket is first sent
};

std::vector<std::vector<std::array<double, 3>>> model_of(const Outer& o, std::size_t ranks, std::size_t steps) {
  std::vector<std::array<double, 3>> x(ranks, {0, 0, 0});
  std::vector<std::vector<std::array<double, 3>>> path(ranks);
  std::array<double, 3> start{}, velocity{}, mean{};
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t r = 0; r < ranks; ++r) {
      for (double& value : x[r]) value -= descent_rate * (value - static_cast<double>(r + 1));
    }
    for (std::size_t b = 0; b < 3; ++b) {
      if (step >= o.first[b] && (step - o.first[b]) % o.h == 0) {
        mean[b] = 0;
        for (std::size_t r = 0; r < ranks; ++r) mean[b] += (start[b] - x[r][b]) / static_cast<double>(ranks);
      }
      if (step < o.first[b] + o.overlap || (step - o.first[b] - o.overlap) % o.h != 0) continue;
      if (o.slowmo) {
        velocity[b] = o.momentum * velocity[b] + mean[b] / descent_rate;
        start[b] -= o.lr * descent_rate * velocity[b];
      } else {
        velocity[b] = o.momentum * velocity[b] + mean[b];
        start[b] -= o.lr * (mean[b] + o.momentum * velocity[b]);
      }
      for (auto& own : x) own[b] = o.alpha * own[b] + (1 - o.alpha) * start[b];
    }
    for (std::size_t r = 0; r < ranks; ++r) path[r].push_back(x[r]);
  }
  return path;
}

TEST_P(Local, SlowmoAndDilocoFollowTheirEquations) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  const std::pair<const char*, Outer> cases[] = {
      {"slowmo(h=4, momentum=0.6, lr=0.8)", {0.8, 0.6, true, 4, 0, 0, {3, 3, 3}}},
      {"diloco(h=4)", {0.7, 0.9, false, 4, 0, 0, {3, 3, 3}}},
      {"diloco(h=6, shards=3, lr=0.5, momentum=0.8)", {0.5, 0.8, false, 6, 0, 0, {1, 3, 5}}},
      {"diloco(h=6, shards=2)", {0.7, 0.9, false, 6, 0, 0, {5, 2, 5}}},
      {"diloco(h=5, overlap=2)", {0.7, 0.9, false, 5, 2, 0.5, {4, 4, 4}}},
      {"diloco(h=6, shards=3, overlap=5, alpha=0.25)", {0.7, 0.9, false, 6, 5, 0.25, {1, 3, 5}}},
  };
  for (const auto& [algorithm, outer] : cases) {
    const auto wanted = model_of(outer, ranks, 30);
    for (const bool overlap : {true, false}) {
      const auto paths = train(algorithm, static_cast<int>(ranks), 30, plain, overlap);
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t step = 0; step < 30; ++step) {
          // Bucket 0 is the last segment.
          for (const auto& [bucket, element] : {std::pair{0, 48}, {1, 32}, {2, 3}}) {
            const double x = wanted[r][step][static_cast<std::size_t>(bucket)];
            ASSERT_NEAR(paths[r][step][static_cast<std::size_t>(element)], x, 1e-5 * static_cast<double>(ranks + 1))
                << algorithm << ", rank " << r << ", step " << step << ", bucket " << bucket;
          }
        }
      }
    }
  }
}

TEST(Diloco, TakesLessMomentumWhereAMemorySendsMostLater) {
  const auto run = [](const char* algorithm, const char* codec, std::string& remark) {
    std::vector<Path> paths(2);
    run_threads(2, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const AlgorithmOptions options{.phases = test::read_phases(codec)};
      const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < 12; ++step) {
        made->step(worker, {step, descent_rate, false});
        paths[static_cast<std::size_t>(communicator.rank())].emplace_back(worker.parameters().begin(),
                                                                          worker.parameters().end());
      }
      made->drain();
      if (communicator.rank() == 0) remark = made->status().remark;
    });
    return paths;
  };
  for (const char* codec : {"none", "topk(0.1)", "ef | int8"}) {
    std::string remark;
    const auto wanted = run("diloco(h=2, momentum=0.9)", codec, remark);
    EXPECT_EQ(run("diloco(h=2)", codec, remark), wanted) << codec;
    EXPECT_EQ(remark.find("outer momentum"), std::string::npos) << remark;
  }
  for (const char* codec : {"ef | topk(0.1)", "ef | sampled_topk(0.1) | int8", "power(1)"}) {
    std::string remark;
    const auto wanted = run("diloco(h=2, momentum=0.5)", codec, remark);
    EXPECT_EQ(remark.find("outer momentum"), std::string::npos) << remark;
    EXPECT_EQ(run("diloco(h=2)", codec, remark), wanted) << codec;
    EXPECT_NE(remark.find("diloco: outer momentum 0.5, as"), std::string::npos) << remark;
  }
}

TEST_P(Local, BuffersAreKeptForgottenOrAveraged) {
  const int ranks = GetParam();
  for (const std::string buffers : {"keep", "reset", "average"}) {
    const auto paths = train("slowmo(h=3, momentum=0, buffers=" + buffers + ")", ranks, 12, "sgd(momentum=0.5)");
    const auto count = static_cast<std::size_t>(ranks);
    std::vector<double> x(count), v(count);
    for (std::size_t step = 0; step < 12; ++step) {
      double mean = 0, mean_v = 0;
      for (std::size_t r = 0; r < count; ++r) {
        v[r] = 0.5 * v[r] + (x[r] - static_cast<double>(r + 1));
        x[r] -= descent_rate * v[r];
        mean += x[r] / ranks;
        mean_v += v[r] / ranks;
      }
      for (std::size_t r = 0; step % 3 == 2 && r < count; ++r) {
        x[r] = mean;
        v[r] = buffers == "keep" ? v[r] : buffers == "reset" ? 0 : mean_v;
      }
      for (std::size_t r = 0; r < count; ++r) EXPECT_NEAR(paths[r][step][3], x[r], 1e-5) << buffers << ", " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Local, testing::Values(1, 2, 3, 4, 7, 8));

}  // namespace
}  // namespace sotto
