// Selections by magnitude send exactly the elements that they should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// The first k elements in descending order of magnitude, by a stable sort.
std::vector<float> top(const std::vector<float>& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  std::vector<float> result(values.size());
  for (std::size_t j = 0; j < k; ++j) result[order[j]] = values[order[j]];
  return result;
}

TEST(TopK, SendsExactlyTheLargest) {
  // Long enough for counting into bins. Many elements are equal in magnitude, with both signs, and k lies before, on
  // and after a border between magnitudes.
  const std::size_t n = 10000;
  const std::vector<std::function<float(std::size_t)>> kinds{
      [](std::size_t i) { return static_cast<float>((i * 7919) % 1000) - 500.0F; },
      [](std::size_t i) { return std::ldexp(i % 3 == 0 ? -1.0F : 1.0F, -static_cast<int>(i % 40)); },
      [](std::size_t i) { return i % 100 == 0 ? 1e-44F * static_cast<float>(i % 7) : 0.0F; },
      [](std::size_t) { return -2.0F; },
  };
  for (const auto& kind : kinds) {
    Input input{"ties", {{{"w", 0, {10000}}}, n}, std::vector<float>(n)};
    for (std::size_t i = 0; i < n; ++i) input.values[i] = kind(i);
    for (const std::size_t k : {1, 2, 249, 250, 251, 500, 501, 2500, 9999, 10000}) {
      for (const char* scope : {"segment", "bucket"}) {
        const auto codec =
            make_codec(read_stages("topk(" + std::to_string(static_cast<double>(k) / n) + ", " + scope + ", dense=0)"));
        EXPECT_EQ(decode(*codec, input, encode(*codec, input)), top(input.values, k)) << k;
      }
    }
  }
}

TEST(Threshold, ReachesUpToTheLargestFloat) {
  constexpr float most = std::numeric_limits<float>::max();
  const Input input{"huge", {{{"w", 0, {4}}}, 4}, {3.1e38F, -3.3e38F, most, 1}};
  const auto sent = [&](const std::string& expression) {
    const auto codec = make_codec(read_stages(expression));
    return decode(*codec, input, encode(*codec, input));
  };
  EXPECT_EQ(sent("threshold(3.2e38, dense=0)"), (std::vector<float>{0, -3.3e38F, most, 0}));
  EXPECT_EQ(sent("threshold(3.4028234663852886e38, dense=0)"), (std::vector<float>{0, 0, most, 0}));
  EXPECT_EQ(sent("threshold(1e39, dense=0)"), (std::vector<float>{0, 0, 0, 0}));
}

TEST(TopK, OfABucketIsTheLargestOfAllSegments) {
  const Layout layout({{"a", 0, {5000}}, {"b", 5000, {3}}, {"c", 5003, {4997}}}, 10000);
  const Input input{"bucket", layout, gaussian(layout, 15)};
  const auto codec = make_codec(read_stages("topk(0.05, scope=bucket, dense=0)"));
  EXPECT_EQ(decode(*codec, input, encode(*codec, input)), top(input.values, 500));
}

TEST(TopK, RoundsTheShareUpButNotForRoundingErrors) {
  const auto kept = [](const std::string& expression, std::int64_t n) {
    const Layout layout({{"w", 0, {1, n}}}, static_cast<std::size_t>(n));
    return std::lround(make_codec(read_stages(expression))->contract(layout).delta * static_cast<double>(n));
  };
  EXPECT_EQ(kept("topk(0.07)", 100), 7);
  EXPECT_EQ(kept("topk(0.01)", 100), 1);
  EXPECT_EQ(kept("topk(0.01)", 101), 2);
  EXPECT_EQ(kept("topk(0.001)", 5), 1);
  EXPECT_EQ(kept("topk(1)", 5), 5);
}

}  // namespace
}  // namespace sotto::testing
