#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout, test::state_of;

// The means of a run by step (checked to have the same bits on all ranks), and what each rank remembers.
struct Outcome {
  std::vector<std::vector<float>> means;
  std::vector<test::State> states;
  std::vector<std::uint64_t> bytes;  // sent by rank 0, by step
};

using Gradient = std::function<std::vector<float>(int rank, int step)>;

Outcome run(int ranks, const std::string& method, const Layout& layout, std::size_t bucket_bytes, int steps,
            const Gradient& gradient) {
  const auto buckets = plan_buckets(layout, bucket_bytes);
  std::vector<std::vector<std::vector<float>>> means(static_cast<std::size_t>(ranks));
  Outcome outcome;
  outcome.states.resize(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto aggregator = make_aggregator(read_recipe(method), buckets, communicator);
    EXPECT_EQ(aggregator->name(), "power");
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t before = communicator.traffic().bytes_sent;
      means[rank].push_back(gradient(communicator.rank(), step));
      average_all(*aggregator, buckets, means[rank].back(), step, communicator);
      if (rank == 0) outcome.bytes.push_back(communicator.traffic().bytes_sent - before);
    }
    outcome.states[rank] = state_of(*aggregator);
  });
  for (const auto& each : means) EXPECT_EQ(each, means[0]) << "every rank has the same bits";
  for (const auto& state : outcome.states)
    EXPECT_EQ(state.floats.at("power.q"), outcome.states[0].floats.at("power.q"));
  outcome.means = std::move(means[0]);
  return outcome;
}

Outcome run_sample(int ranks, const std::string& method, int steps) {
  return run(ranks, method, sample_layout(), 1200, steps,
             [](int rank, int step) { return sample_gradient(sample_layout(), rank, step); });
}

// |a - b| / |b| over `segment`.
double distance(std::span<const float> a, std::span<const float> b, const Segment& segment) {
  double difference = 0, norm = 0;
  for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// Each segment s is sizes[s] * u v^T with random u and v, whose first `dead` entries are zero.
std::vector<float> outer_products(const Layout& layout, int seed, const std::vector<double>& sizes,
                                  std::size_t dead = 0) {
  std::vector<float> values(layout.size());
  Philox random(static_cast<std::uint64_t>(seed), Purpose::test);
  for (std::size_t s = 0; s < layout.segments().size(); ++s) {
    const Segment& segment = layout.segments()[s];
    const auto rows = static_cast<std::size_t>(segment.shape[0]);
    const std::size_t cols = segment.numel() / rows;
    std::vector<double> u(rows), v(cols);
    for (double& x : u) x = random.normal();
    for (double& x : v) x = random.normal();
    std::fill_n(u.begin(), dead, 0.0);
    std::fill_n(v.begin(), dead, 0.0);
    for (std::size_t i = 0; i < segment.numel(); ++i) {
      values[segment.offset + i] = static_cast<float>(sizes[s] * u[i / cols] * v[i % cols]);
    }
  }
  return values;
}

Layout equal_shapes() {
  Layout layout;
  for (const char* name : {"a", "b", "c"}) layout.append(name, {12, 9});
  return layout;
}

TEST(Power, EveryRankHasTheSameBitsAndNothingIsLost) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const char* method : {"power(1)", "ef | power(2)", "power(rank=3, min_rate=0)", "power(2) | bf16"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(method) + ", ranks " + std::to_string(ranks));
      const int steps = 4;
      const Outcome outcome = run_sample(ranks, method, steps);
      std::vector<double> missing(sample_layout().size());
      for (int rank = 0; rank < ranks; ++rank) {
        for (int step = 0; step < steps; ++step) {
          const auto values = sample_gradient(sample_layout(), rank, step);
          for (std::size_t i = 0; i < missing.size(); ++i) missing[i] += values[i] / static_cast<double>(ranks);
        }
        std::size_t at = 0;
        for (const BucketPlan& plan : buckets) {
          for (std::size_t i = 0; i < plan.range.size(); ++i) {
            missing[plan.range.begin + i] -=
                outcome.states[static_cast<std::size_t>(rank)].floats.at("memory.ef")[at++] /
                static_cast<double>(ranks);
          }
        }
      }
      for (const auto& mean : outcome.means) {
        for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= mean[i];
      }
      // bf16 rounds each addition of the dense segments to within 2^-8, and that error is lost.
      const double tolerance = std::string(method).ends_with("bf16") ? 0.1 : 2e-5;
      for (const double value : missing) ASSERT_NEAR(value, 0, tolerance);
    }
  }
}

// If all three shared one norm, each would be shrunk by its share of that norm.
TEST(Power, MatricesOfOneShapeAreNormalisedOneByOne) {
  const Layout layout = equal_shapes();
  const auto wanted = outer_products(layout, 1, {1, 30, 0.01});
  for (const char* method : {"power(rank=1, min_rate=1)", "power(rank=2, min_rate=1)"}) {
    const Outcome outcome = run(2, method, layout, 1U << 20, 1, [&](int, int) { return wanted; });
    for (const Segment& segment : layout.segments()) {
      EXPECT_LT(distance(outcome.means[0], wanted, segment), 1e-5) << method << ", " << segment.name;
    }
  }
}

// P projects on a subspace: each result is shorter than the vector that was offered, and so is the rest.
TEST(Power, EachOfSeveralMatricesContracts) {
  const Layout layout = equal_shapes();
  const auto gradient = sample_gradient(layout, 0, 0);
  const Outcome outcome = run(1, "power(rank=1, min_rate=1)", layout, 1U << 20, 40, [&](int, int) { return gradient; });
  std::vector<float> sum(layout.size());
  std::vector<double> first;
  for (std::size_t step = 0; step < outcome.means.size(); ++step) {
    const auto& mean = outcome.means[step];
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mean[i];
    if (step == 0) {
      for (const Segment& segment : layout.segments()) {
        EXPECT_LT(distance(mean, gradient, segment), 0.999) << segment.name;
        EXPECT_GT(distance(mean, gradient, segment), 0.1) << segment.name << ": it is no product of two vectors";
      }
    }
  }
  for (float& value : sum) value /= static_cast<float>(outcome.means.size());
  for (const Segment& segment : layout.segments()) {
    EXPECT_LT(distance(sum, gradient, segment), 0.3) << segment.name << ": error feedback sends the rest later";
  }
}

TEST(Power, VectorsAndSmallMatricesGoDense) {
  Layout layout;
  layout.append("small", {3, 4});    // 12 / 7 < 2
  layout.append("large", {30, 20});  // 600 / 50
  layout.append("bias", {40});
  const auto gradient = [&](int rank, int step) { return sample_gradient(layout, rank, step); };
  const auto dense_segments = [&](const char* method) {
    const Outcome outcome = run(1, method, layout, 1U << 20, 1, gradient);
    std::string names;
    for (const Segment& segment : layout.segments()) {
      if (distance(outcome.means[0], gradient(0, 0), segment) == 0) names += segment.name + " ";
    }
    return names;
  };
  EXPECT_EQ(dense_segments("power(1)"), "small bias ");
  EXPECT_EQ(dense_segments("power(rank=1, min_rate=1.5)"), "bias ");
  EXPECT_EQ(dense_segments("power(rank=6)"), "small bias ");
  EXPECT_EQ(dense_segments("power(rank=7)"), "small large bias ") << "600 / 350";
}

TEST(Power, SendsWhatTheFormulaSays) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int rank : {1, 2}) {
      for (const bool half : {false, true}) {
        const auto method = "power(rank=" + std::to_string(rank) + ", min_rate=1)" + (half ? " | bf16" : "");
        const Outcome outcome = run_sample(ranks, method, 2);
        // Buckets are fc (10x37 and 10) and conv (4x75 and 4), sums of less than 16 KiB, hence sent to every rank.
        const std::size_t r = static_cast<std::size_t>(rank);
        const std::size_t floats = r * (10 + 37) + 10 + (r * (4 + 75) + 4);
        EXPECT_EQ(outcome.bytes[1], static_cast<std::size_t>(ranks - 1) * floats * (half ? 2 : 4)) << method;
      }
    }
  }
  // Large buckets go round a ring: 2 n s (W-1)/W bytes.
  Layout layout;
  layout.append("w", {8192, 64});
  const Outcome outcome =
      run(2, "power(1)", layout, 1U << 30, 1, [&](int, int) { return std::vector<float>(layout.size(), 1.0F); });
  EXPECT_EQ(outcome.bytes[0], 2 * 8192 * 4 / 2 + 64 * 4);
  EXPECT_NEAR(outcome.means[0][12345], 1, 1e-4);
}

TEST(Power, ResumesToTheSameBits) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const char* method : {"power(1)", "power(rank=2)", "power(2) | f16"}) {
    EXPECT_TRUE(test::resumes(3, "auto", method, buckets)) << method;
  }
}

// A gradient of zero leaves no direction to start from. The next gradient is found nevertheless, even where its first
// coordinates are zero.
TEST(Power, RecoversFromZero) {
  const Layout layout = equal_shapes();
  const auto wanted = outer_products(layout, 2, {1, 1, 1}, 2);
  for (const char* method : {"power(rank=1, min_rate=1)", "power(rank=2, min_rate=1)"}) {
    const Outcome outcome = run(2, method, layout, 1U << 20, 4,
                                [&](int, int step) { return step < 2 ? std::vector<float>(layout.size()) : wanted; });
    EXPECT_EQ(outcome.means[0], std::vector<float>(layout.size())) << method;
    EXPECT_EQ(outcome.means[1], std::vector<float>(layout.size())) << method;
    for (const Segment& segment : layout.segments()) {
      EXPECT_LT(distance(outcome.means[2], wanted, segment), 1e-5) << method << ", " << segment.name;
    }
  }
}

TEST(Power, SpansEverythingAtFullRank) {
  Layout layout;
  layout.append("tall", {7, 3});
  layout.append("column", {5, 1});
  layout.append("row", {1, 6});
  const auto gradient = [&](int rank, int step) { return sample_gradient(layout, rank, step); };
  const Outcome outcome = run(1, "power(rank=8, min_rate=0)", layout, 1U << 20, 2, gradient);
  for (int step = 0; step < 2; ++step) {
    for (const Segment& segment : layout.segments()) {
      EXPECT_LT(distance(outcome.means[static_cast<std::size_t>(step)], gradient(0, step), segment), 1e-5)
          << segment.name;
    }
  }
}

TEST(Power, AFailedExchangeLosesNothing) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const int which : {0, 1}) {  // the all-reduce of P, then the one of Q
    run_threads(2, 20s, [&](Communicator& group) {
      test::Spoilt communicator(group, [&](int exchange, std::span<Recv>) {
        if (exchange == 2 + which) throw CommError("the cable is out");
      });
      const auto aggregator = make_aggregator(read_recipe("power(1)"), buckets, communicator);
      auto values = sample_gradient(layout, group.rank(), 0);
      average_all(*aggregator, buckets, values, 0, communicator);
      const test::State before = state_of(*aggregator);
      const auto gradient = sample_gradient(layout, group.rank(), 1);
      values = gradient;
      EXPECT_EQ(message_of([&] { average_all(*aggregator, buckets, values, 1, communicator); }), "the cable is out");
      EXPECT_EQ(values, gradient);
      auto held = before.floats.at("memory.ef");
      for (std::size_t i = 0; i < held.size(); ++i) held[i] += gradient[i];
      const test::State after = state_of(*aggregator);
      EXPECT_EQ(after.floats.at("memory.ef"), held);
      EXPECT_EQ(after.floats.at("power.q"), before.floats.at("power.q"));
    });
  }
}

TEST(Power, WhatIsNotFiniteIsAnErrorThatNamesTheTensor) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38F}) {  // the second overflows in P
    run_threads(2, 20s, [&](Communicator& communicator) {
      const auto aggregator = make_aggregator(read_recipe("power(1)"), buckets, communicator);
      std::vector<float> values(layout.size());
      for (std::size_t i = 0; i < 370; ++i) values[layout.segments()[2].offset + i] = bad;
      const auto text = message_of([&] { average_all(*aggregator, buckets, values, 3, communicator); });
      EXPECT_NE(text.find("fc.weight"), std::string::npos) << text;
      EXPECT_NE(text.find("step 3"), std::string::npos) << text;
    });
  }
}

TEST(Power, IsAMethodOfItsOwn) {
  const auto canonical = [](const char* text) { return read_recipe(text).text(); };
  EXPECT_EQ(canonical("power"), "ef | power(rank=1, min_rate=2)");
  EXPECT_EQ(canonical("ef | power"), canonical("power(1)"));
  EXPECT_EQ(canonical("powersgd"), canonical("power(4)"));
  EXPECT_EQ(canonical("power(2, min_rate=1) | f16"), "ef | power(rank=2, min_rate=1) | f16");
  EXPECT_EQ(canonical(canonical("power(3)").c_str()), canonical("power(3)"));
  run_threads(1, 20s, [&](Communicator& communicator) {
    const auto buckets = plan_buckets(sample_layout(), 1200);
    const auto error = [&](const char* name, const char* method) {
      return message_of([&] { make_aggregator(read_recipe(method, name), buckets, communicator); });
    };
    const auto has = [](const std::string& text, const char* part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(error("auto", "power(0)"), "rank must be in [1, 64]");
    has(error("auto", "power(rang=2)"), "did you mean `rank`");
    has(error("gather", "power(2)"), "is an aggregator itself");
    has(error("power", "none"), "write it in codec");
    has(error("auto", "power | qsgd"), "what follows `power` is summed on the way");
    has(error("auto", "velocity | power"), "`velocity` does not hold that back; use `ef` or `momentum`");
  });
}

}  // namespace
}  // namespace sotto
