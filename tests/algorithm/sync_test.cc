#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/optim/clip.h"
#include "sotto/optim/sgd.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

constexpr std::array orders{"sync", "sync(priority=need)"};

std::vector<std::vector<float>> train(int ranks, const AlgorithmOptions& options, int steps,
                                      const char* expression = "sync") {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto sync = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
    for (int step = 0; step < steps; ++step) {
      const StepReport report = sync->step(worker, {static_cast<std::uint64_t>(step), 0.1, false});
      EXPECT_FALSE(report.stop);
      EXPECT_GT(report.loss, 0);
    }
    sync->drain();
    ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(), worker.parameters().end());
  });
  return ends;
}

class Orders : public testing::TestWithParam<const char*> {};

TEST_P(Orders, FollowTheMeanGradientExactly) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    AlgorithmOptions options;
    const auto ends = train(ranks, options, 5, GetParam());
    // The mean of a_r is (W+1)/2, and heavy-ball momentum on one coordinate has a closed recursion.
    const double target = (ranks + 1) / 2.0;
    double x = 0;
    double v = 0;
    for (int step = 0; step < 5; ++step) {
      v = 0.5 * v + (x - target);
      x -= 0.1 * v;
    }
    for (const auto& parameters : ends) {
      ASSERT_EQ(0, std::memcmp(parameters.data(), ends[0].data(), parameters.size() * sizeof(float)));
      EXPECT_NEAR(parameters[0], x, 1e-5) << ranks;
      EXPECT_NEAR(parameters[32], x, 1e-5) << ranks;
      EXPECT_EQ(parameters[20], 0.0F) << "padding";
    }
  }
}

TEST(Sync, OverlapChangesNoBit) {
  for (const char* codec : {"none", "qsgd(bits=4)", "ef | topk(0.1)"}) {
    AlgorithmOptions with;
    with.phases = test::read_phases(codec);
    AlgorithmOptions without = with;
    without.overlap = false;
    EXPECT_EQ(train(3, with, 4), train(3, without, 4)) << codec;
  }
}

TEST(Sync, ThreadsOfTheCodecChangeNoBit) {
  for (const char* codec : {"f16", "qsgd(bits=4)", "ef | topk(0.1)"}) {
    AlgorithmOptions one;
    one.phases = test::read_phases(codec);
    AlgorithmOptions three = one;
    three.codec_threads = 3;
    EXPECT_EQ(train(3, one, 4), train(3, three, 4)) << codec;
  }
}

TEST_P(Orders, TellAllRanksOfAStopInTheSameStep) {
  run_threads(4, 20s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto sync = make_algorithm(test::algorithm(GetParam()), {}, worker.buckets(), communicator);
    EXPECT_FALSE(sync->step(worker, {0, 0.1, false}).stop);
    EXPECT_TRUE(sync->step(worker, {1, 0.1, communicator.rank() == 2}).stop);
    EXPECT_FALSE(sync->step(worker, {2, 0.1, false}).stop);
    sync->drain();
  });
}

TEST_P(Orders, ReportTheErrorOfTheWorker) {
  for (const std::uint64_t failing : {0U, 2U}) {
    const auto body = [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      worker.fails_at = failing;  // 2 is the last bucket, while others are on their way
      const auto sync = make_algorithm(test::algorithm(GetParam()), {}, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step <= failing; ++step) {
        worker.fails = step == failing && communicator.rank() == 1;
        sync->step(worker, {step, 0.1, false});
      }
      sync->drain();
    };
    EXPECT_THROW(run_threads(2, 20s, body), NumericError) << failing;
  }
}

INSTANTIATE_TEST_SUITE_P(Sync, Orders, testing::ValuesIn(orders),
                         [](const auto& order) { return std::string(order.index == 0 ? "ready" : "need"); });

TEST(Algorithms, UnknownNamesAreRefusedWithTheNearest) {
  run_threads(1, 20s, [&](Communicator& communicator) {
    Quadratic worker(0);
    try {
      make_algorithm(test::algorithm("snyc"), {}, worker.buckets(), communicator);
      ADD_FAILURE();
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("did you mean `sync`"), std::string::npos) << error.what();
    }
    EXPECT_THROW(make_algorithm(test::algorithm("sync(3)"), {}, worker.buckets(), communicator), ConfigError);
    EXPECT_THROW(make_algorithm(test::algorithm("sync | sync"), {}, worker.buckets(), communicator), ConfigError);
  });
}

// Its optimiser steps along the mean gradient, once that was clipped.
class Clipping final : public Quadratic {
 public:
  Clipping(int rank, const char* clip)
      : Quadratic(rank, "sgd(momentum=0)"),
        optimiser_(make_optimiser(test::optimiser("sgd(momentum=0)"), test::flat(parameters().size())),
                   clip_table().read("clip", clip), parameters().size()) {}
  Optimiser& optimiser() override { return optimiser_; }

 private:
  Clipped optimiser_;
};

// The gradient of rank r is -(r + 1) in each of 42 elements; the mean over ranks is -2.
TEST(Sync, ClipsTheMeanOfAllRanks) {
  for (const auto& [clip, moved] :
       {std::pair{"norm(1)", 1 / std::sqrt(42.0)}, {"value(0.25)", 0.25}, {"norm(99)", 2.0}}) {
    run_threads(3, 20s, [&, clip = clip, moved = moved](Communicator& communicator) {
      Clipping worker(communicator.rank(), clip);
      const auto sync = make_algorithm(test::algorithm("sync"), {}, worker.buckets(), communicator);
      sync->step(worker, {0, 0.5, false});
      sync->drain();
      for (const std::size_t i : {0, 19, 32, 48}) EXPECT_NEAR(worker.parameters()[i], 0.5 * moved, 1e-6) << clip;
      EXPECT_EQ(worker.parameters()[20], 0) << "padding";
    });
  }
}

}  // namespace
}  // namespace sotto
