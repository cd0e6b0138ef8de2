#include "sotto/codec/decoded_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"

namespace sotto {
namespace {

TEST(DecodedErrors, AreExactWhereTheyAreKnown) {
  // 1, -2, .. of magnitudes 1 to 20 and a zero; the 95th percentile of |x| is 19. Every positive value is doubled.
  const Layout layout({{"a", 0, {20}}, {"b", 32, {1}}}, 33);
  std::vector<float> x(33), decoded(33);
  for (int i = 1; i <= 20; ++i) {
    x[static_cast<std::size_t>(i - 1)] = static_cast<float>(i % 2 == 1 ? i : -i);
    decoded[static_cast<std::size_t>(i - 1)] = static_cast<float>(i % 2 == 1 ? 2 * i : -i);
  }
  EXPECT_EQ(magnitude_quantile(std::span(x).first(21), 0.95), 19);
  EXPECT_EQ(magnitude_quantile(std::span(x).first(4), 0.5), 2.5);
  const DecodedErrors errors = errors_of(layout, x, decoded);
  const double odd = 1330, even = 1540;  // sums of squares
  EXPECT_DOUBLE_EQ(errors.square, odd / (odd + even));
  EXPECT_DOUBLE_EQ(errors.cosine, (2 * odd + even) / (std::sqrt(odd + even) * std::sqrt(4 * odd + even)));
  EXPECT_DOUBLE_EQ(errors.wasserstein, 100.0 / 21) << "sorted, each positive value moves to its double";
  const auto& parts = errors.relative;
  EXPECT_EQ(parts[DecodedErrors::positive_big].elements, 0U) << "19 is the percentile, not above it";
  EXPECT_EQ(parts[DecodedErrors::negative_big].elements, 1U);
  EXPECT_EQ(parts[DecodedErrors::positive_small].elements, 10U);
  EXPECT_EQ(parts[DecodedErrors::negative_small].elements, 9U) << "a zero has no relative error";
  EXPECT_EQ(parts[DecodedErrors::positive_small].mean, 1);
  EXPECT_EQ(parts[DecodedErrors::positive_small].most, 1);
  EXPECT_EQ(parts[DecodedErrors::negative_small].most, 0);
}

TEST(DecodedErrors, OfZeros) {
  const Layout layout({{"a", 0, {2}}}, 2);
  const std::vector<float> zero(2), one{1, 0};
  EXPECT_EQ(errors_of(layout, zero, zero).cosine, 1);
  EXPECT_EQ(errors_of(layout, zero, one).cosine, 0);
  EXPECT_EQ(errors_of(layout, one, zero).cosine, 0);
  EXPECT_EQ(errors_of(layout, one, zero).square, 1);
  EXPECT_EQ(errors_of(layout, zero, one).square, 0);
  EXPECT_EQ(errors_of(Layout(), {}, {}).wasserstein, 0);
}

TEST(DecodedErrors, OfAVectorOfSeveralMessages) {
  const Layout layout({{"a", 0, {8}}, {"b", 16, {8}}}, 24);
  std::vector<float> x(24);
  std::iota(x.begin(), x.begin() + 8, 1.0F);
  std::iota(x.begin() + 16, x.end(), -8.0F);
  const auto codec = make_codec(read_stages("topk(ratio=0.25, dense=0)"));
  Codec* const one = codec.get();
  for (const std::size_t most : {std::size_t{8}, most_elements}) {
    const MeasuredErrors measured =
        measure_errors({&one, 1}, layout, plan_buckets(layout, 1U << 20U, most), x, 2).front();
    EXPECT_DOUBLE_EQ(measured.errors.square, 2 * 91.0 / (2 * 204)) << "the largest two of each are sent";
    EXPECT_NEAR(measured.measurement.relative_error, std::sqrt(measured.errors.square), 1e-9);
  }
}

TEST(MeasuredMerges, HaveTheErrorOfTheSumEitherWay) {
  const Layout layout({{"a", 0, {1000}}}, 1000);
  std::vector<float> x(1000), y(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    x[i] = static_cast<float>(i % 7) - 2;
    y[i] = static_cast<float>(i % 5) - 2;
  }
  const std::vector<std::span<const float>> inputs{x, y};
  const std::vector<std::size_t> counts{1, 3, 64};
  const auto measured = [&](const char* expression) {
    return measure_merges(*make_codec(read_stages(expression)), layout, inputs, counts, 300);
  };
  for (const char* expression : {"f32", "topk(0.1, dense=0)", "terngrad(shared=true)", "qsgd(4) | rans"}) {
    const auto all = measured(expression);
    ASSERT_EQ(all.size(), 3U);
    for (const MeasuredMerge& merge : all) {
      EXPECT_GT(merge.each.seconds, 0);
      EXPECT_EQ(merge.each.error < 1e-6, std::string_view(expression) == "f32") << expression;
      EXPECT_FALSE(merge.merged);
    }
  }
  for (const char* expression :
       {"clusters(c=3, decode=centre, raw=0, shared=true)", "clusters(c=3, buckets=100, raw=0, shared=true)"}) {
    for (const MeasuredMerge& merge : measured(expression)) {
      ASSERT_TRUE(merge.merged);
      EXPECT_GT(merge.merged->seconds, 0);
      EXPECT_GT(merge.each.error, 0.01);
      EXPECT_NEAR(merge.merged->error, merge.each.error, 0.3 * merge.each.error) << expression;
    }
  }
  EXPECT_FALSE(measured("clusters(c=3, raw=0, buckets=100, shared=true) | zstd").front().merged);
}

}  // namespace
}  // namespace sotto
