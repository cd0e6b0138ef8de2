// Random selections: the probability of each element, the variance in closed form, the contents of messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/select/randomk.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// The circle of n = 10 elements has stretches of 3, 3 and 4.
TEST(RandomShare, TakesEachNumberWithTheSameProbability) {
  ThreadPool pool(1);
  for (const auto& [n, ratio, k] : {std::tuple{10, 0.3, 3}, {10, 0.7, 7}, {7, 0.01, 1}, {5, 1.0, 5}, {97, 0.1, 10}}) {
    constexpr int draws = 20000;
    std::vector<int> taken(static_cast<std::size_t>(n));
    std::vector<std::uint32_t> out(static_cast<std::size_t>(n));
    for (int t = 0; t < draws; ++t) {
      const auto stream = element_stream(40, Purpose::select, 0, static_cast<std::uint64_t>(t), 0);
      const std::size_t count = take_random_share(pool, ratio, taken.size(), stream, 1000, 5, out.data());
      ASSERT_EQ(count, static_cast<std::size_t>(k));
      for (std::size_t j = 0; j < count; ++j) {
        ASSERT_TRUE(j == 0 || out[j - 1] < out[j]);
        ASSERT_LT(out[j] - 5, taken.size());
        ++taken[out[j] - 5];
      }
    }
    // Five standard deviations; by chance, one of these 129 numbers exceeds them once in 10^4 seeds.
    const double p = static_cast<double>(k) / n;
    for (const int count : taken) EXPECT_NEAR(count, draws * p, 5 * std::sqrt(draws * p * (1 - p))) << n << ", " << k;
  }
}

// E|C(x)-x|^2 over |x|^2, and its standard error.
std::pair<double, double> relative_variance(const std::string& expression, const Input& input) {
  const auto codec = make_codec(read_stages(expression));
  constexpr int draws = 4000;
  double sum = 0, squares = 0;
  for (std::uint32_t t = 0; t < draws; ++t) {
    const auto decoded = decode(*codec, input, encode(*codec, input, {.seed = 41, .step = t}));
    const double error = square_distance(decoded, input.values) / square_norm(input.values);
    sum += error;
    squares += error * error;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt((squares / draws - mean * mean) / draws)};
}

// Within four standard errors; by chance, one of these eight checks fails with probability 5e-4.
TEST(RandomShare, HasTheVarianceOfItsClosedForm) {
  const Layout layout({{"w", 0, {17, 59}}}, 1003);
  const Input input{"gaussian", layout, gaussian(layout, 42)};
  const double n = 1003, blocks = 101;  // blocks of 10, the last one of 3
  for (const auto& [expression, omega] : {std::pair{"randomk(0.1, unbiased=true)", n / 101 - 1},
                                          {"randomk(0.3, shared=false, unbiased=true)", n / 301 - 1},
                                          {"block(10, 0.05, random, unbiased=true)", blocks / 6 - 1},
                                          {"block(10, 0.3, shared, unbiased=true)", blocks / 31 - 1},
                                          {"randomk(0.1)", 1 - 101 / n},
                                          {"randomk(0.3, shared=false)", 1 - 301 / n},
                                          {"block(10, 0.05, random)", 1 - 6 / blocks},
                                          {"block(10, 0.3, shared)", 1 - 31 / blocks}}) {
    const auto [variance, deviation] = relative_variance(expression, input);
    EXPECT_NEAR(variance, omega, 4 * deviation) << expression;
    const Contract contract = make_codec(read_stages(expression))->contract(layout);
    const bool unbiased = contract.kind == Contract::Kind::unbiased;
    EXPECT_NEAR(unbiased ? contract.omega : 1 - contract.delta, omega, 1e-12) << expression;
  }
}

// The share is taken of 1003 + 95 atoms together, or of 101 + 10 blocks.
TEST(RandomShare, OfTheBucketHasTheVarianceOfItsClosedForm) {
  const Layout layout({{"v", 0, {17, 59}}, {"w", 1003, {5, 19}}}, 1098);
  const Input input{"gaussian", layout, gaussian(layout, 45)};
  for (const auto& [expression, omega] : {std::pair{"randomk(0.1, unbiased=true, scope=bucket)", 1098.0 / 110 - 1},
                                          {"randomk(0.3, shared=false, scope=bucket)", 1 - 330.0 / 1098},
                                          {"block(10, 0.05, random, unbiased=true, scope=bucket)", 111.0 / 6 - 1},
                                          {"block(10, 0.3, shared, scope=bucket)", 1 - 34.0 / 111}}) {
    const auto [variance, deviation] = relative_variance(expression, input);
    EXPECT_NEAR(variance, omega, 4 * deviation) << expression;
    const Contract contract = make_codec(read_stages(expression))->contract(layout);
    EXPECT_NEAR(contract.kind == Contract::Kind::unbiased ? contract.omega : 1 - contract.delta, omega, 1e-12)
        << expression;
    const auto decoded =
        decode(*make_codec(read_stages(expression)), input, encode(*make_codec(read_stages(expression)), input));
    const auto sent = std::ranges::count_if(decoded, [](float x) { return x != 0; });
    if (std::string(expression).starts_with("randomk")) {
      EXPECT_EQ(sent, contract.kind == Contract::Kind::unbiased ? 110 : 330) << expression;
    }
  }
}

// Dense segments are sent exactly, in messages and in sums.
TEST(RandomShare, LeavesDenseSegmentsWhole) {
  const Layout layout({{"bias", 0, {9}}, {"w", 16, {6, 7}}, {"scale", 64, {}}, {"v", 65, {5, 5}}}, 90);
  const Input input{"gaussian", layout, gaussian(layout, 46)};
  for (const char* scope : {"segment", "bucket"}) {
    for (const char* form : {"randomk(0.3, shared=true, unbiased={}, scope={}, dense=9)",
                             "randomk(0.3, shared=false, unbiased={}, scope={}, dense=9)",
                             "block(2, 0.3, shared, {}, {}, 9)", "block(2, 0.3, random, {}, {}, 9)"}) {
      for (const bool unbiased : {false, true}) {
        const std::string expression = fmt::format(fmt::runtime(form), unbiased, scope);
        const auto codec = make_codec(read_stages(expression));
        const auto decoded = decode(*codec, input, encode(*codec, input));
        std::size_t sent = 0;
        for (const Segment& segment : layout.segments()) {
          for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
            if (segment.shape.size() < 2) {
              EXPECT_EQ(decoded[i], input.values[i]) << expression;
            } else {
              sent += decoded[i] != 0 ? 1 : 0;
            }
          }
        }
        EXPECT_GT(sent, 18U) << expression;
        EXPECT_LT(sent, 26U) << expression;
        if (!codec->traits().linear_type) continue;
        std::vector<float> form_of(codec->linear_count(layout)), out = input.values;
        codec->to_linear({out, &layout, 0}, 1, {}, std::as_writable_bytes(std::span(form_of)));
        Bucket bucket{out, &layout, 0};
        codec->from_linear(std::as_bytes(std::span(form_of)), 1, {}, bucket);
        EXPECT_EQ(out, decoded) << expression;
      }
    }
  }
}

TEST(RandomShare, WhatEveryRankKnowsNeedsNoIndices) {
  const Layout layout({{"w", 0, {10000}}}, 10000);
  const Input input{"gaussian", layout, gaussian(layout, 43)};
  const auto size = [&](const std::string& expression) {
    const auto codec = make_codec(read_stages(expression));
    const auto message = encode(*codec, input, {.seed = 44});
    EXPECT_LE(message.size(), codec->max_bytes(layout, {0, layout.size()}));
    return message.size();
  };
  EXPECT_EQ(size("randomk(0.01)"), 32 + 8 + 100 * 4);
  EXPECT_EQ(size("randomk(0.01) | f16"), 32 + 8 + 100 * 2 + 4);
  EXPECT_EQ(size("block(100, 0.02, shared)"), 32 + 8 + 200 * 4);
  EXPECT_GE(size("randomk(0.01, shared=false)"), 32 + 4 + 100 * 4 + 100);
  EXPECT_EQ(size("block(100, 0.02, random)"), 32 + 4 + 200 * 4 + 2);  // two gaps between blocks
}

TEST(Block, SendsThoseOfLargestNorm) {
  const Layout layout({{"w", 0, {11, 1}}}, 11);
  // Norms of the blocks of 4: 2, sqrt(10), 3.
  const Input input{"blocks", layout, {1, -1, 1, 1, 0, 3, 0, -1, 0, 0, 3}};
  const auto sent = [&](const std::string& expression) {
    return decode(*make_codec(read_stages(expression)), input, encode(*make_codec(read_stages(expression)), input));
  };
  EXPECT_EQ(sent("block(4, 0.3)"), (std::vector<float>{0, 0, 0, 0, 0, 3, 0, -1, 0, 0, 0}));
  EXPECT_EQ(sent("block(4, 0.5)"), (std::vector<float>{0, 0, 0, 0, 0, 3, 0, -1, 0, 0, 3}));
  EXPECT_EQ(sent("block(4, 1)"), input.values);
}

TEST(Block, OfTheBucketAreTheLargestOfAllSegments) {
  const Layout layout({{"v", 0, {3, 1}}, {"w", 3, {5, 1}}, {"x", 8, {4, 1}}}, 12);
  // Norms of the blocks of 2: 1, 5; 4, 2, 3; 0, 6.
  const Input input{"blocks", layout, {0, 1, -5, 4, 0, 0, 2, -3, 0, 0, 6, 0}};
  const auto sent = [&](const std::string& expression) {
    return decode(*make_codec(read_stages(expression)), input, encode(*make_codec(read_stages(expression)), input));
  };
  EXPECT_EQ(sent("block(2, 0.4, scope=bucket)"), (std::vector<float>{0, 0, -5, 4, 0, 0, 0, 0, 0, 0, 6, 0}));
  EXPECT_EQ(sent("block(2, 0.1, scope=bucket)"), (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0}));
  EXPECT_THROW(make_codec(read_stages("svd | topk(0.5) | block(size=1, scope=bucket)")), ConfigError);
}

TEST(Block, RefusesWhatMakesNoSense) {
  EXPECT_THROW(make_codec(read_stages("block(pick=top, unbiased=true)")), ConfigError);
  EXPECT_THROW(make_codec(read_stages("svd | topk(0.5) | block(4)")), ConfigError);
}

}  // namespace
}  // namespace sotto::testing
