#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sotto/core/random.h"

namespace sotto {
namespace {

// The known answers of Random123 1.09 (kat_vectors, "philox4x32 10").
TEST(Philox, KnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  const std::uint32_t ones = 0xFFFFFFFFU;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Philox, StreamsDifferInSeedPurposeAndIndex) {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint64_t index) {
    return Philox(seed, purpose, index).next();
  };
  const std::uint32_t base = first(1, Purpose::test, 0);
  EXPECT_EQ(base, first(1, Purpose::test, 0));
  EXPECT_NE(base, first(2, Purpose::test, 0));
  EXPECT_NE(base, first(1ULL << 32, Purpose::test, 0));
  EXPECT_NE(base, first(1, Purpose::data, 0));
  EXPECT_NE(base, first(1, Purpose::test, 1));
  EXPECT_NE(base, first(1, Purpose::test, 1ULL << 32));
}

// Chi-squared of counts, each of which should be `expected`.
double chi_squared(const std::vector<std::uint32_t>& counts, double expected) {
  double sum = 0;
  for (const std::uint32_t count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// The mean of a chi-squared variable plus five standard deviations; a fair generator exceeds it once in 10^6.
double chi_squared_limit(std::size_t cells) {
  const auto freedom = static_cast<double>(cells - 1);
  return freedom + 5 * std::sqrt(2 * freedom);
}

TEST(Philox, BelowIsUniform) {
  Philox random(7, Purpose::test);
  std::vector<std::uint32_t> counts(48);
  for (int i = 0; i < 48'000; ++i) ++counts.at(random.below(48));
  EXPECT_LT(chi_squared(counts, 1000), chi_squared_limit(counts.size()));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.below(1), 0U);
}

TEST(Philox, BelowDoesNotFavourLowNumbers) {
  // Without correction, the product with 3 * 2^30 would give every third number twice as often.
  Philox random(8, Purpose::test);
  std::vector<std::uint32_t> counts(3);
  for (int i = 0; i < 30'000; ++i) ++counts.at(random.below(3U << 30) % 3);
  EXPECT_LT(chi_squared(counts, 10'000), chi_squared_limit(counts.size()));
}

TEST(Philox, UniformAndNormalHaveTheirMoments) {
  constexpr int count = 200'000;
  Philox random(9, Purpose::test);
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, normal_fourth = 0;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
    const double z = random.normal();
    normal_sum += z;
    normal_squares += z * z;
    normal_fourth += z * z * z * z;
  }
  const double five = 5 / std::sqrt(count);  // five standard deviations of a mean of unit variance
  EXPECT_NEAR(sum / count, 0.5, five * std::sqrt(1.0 / 12));
  EXPECT_NEAR(squares / count, 1.0 / 3, five * std::sqrt(4.0 / 45));
  EXPECT_NEAR(normal_sum / count, 0, five);
  EXPECT_NEAR(normal_squares / count, 1, five * std::sqrt(2.0));
  EXPECT_NEAR(normal_fourth / count, 3, five * std::sqrt(96.0));
}

TEST(ElementStream, IsAFunctionOfEveryPartOfItsKey) {
  const auto same = [](const ElementStream& a, const ElementStream& b) { return a.k0 == b.k0 && a.k1 == b.k1; };
  const ElementStream base = element_stream(1, Purpose::quantise, 2, 3, 4, 5);
  EXPECT_TRUE(same(base, element_stream(1, Purpose::quantise, 2, 3, 4, 5)));
  EXPECT_FALSE(same(base, element_stream(0, Purpose::quantise, 2, 3, 4, 5)));
  EXPECT_FALSE(same(base, element_stream(1, Purpose::select, 2, 3, 4, 5)));
  EXPECT_FALSE(same(base, element_stream(1, Purpose::quantise, 3, 3, 4, 5)));
  EXPECT_FALSE(same(base, element_stream(1, Purpose::quantise, 2, 3 + (1ULL << 32), 4, 5)));
  EXPECT_FALSE(same(base, element_stream(1, Purpose::quantise, 2, 3, 5, 5)));
  EXPECT_FALSE(same(base, element_stream(1, Purpose::quantise, 2, 3, 4, 6)));
}

TEST(ElementStream, UniformIsBelowOneAndExact) {
  const ElementStream stream = element_stream(1, Purpose::test, 0, 0, 0);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const float u = stream.uniform(i);
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    ASSERT_EQ(u * 0x1p24F, std::floor(u * 0x1p24F));
  }
}

TEST(ElementStream, BytesAreUniform) {
  constexpr std::uint32_t count = 1U << 20;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const ElementStream stream = element_stream(11, Purpose::test, rank, 17, 3);
    for (int shift = 0; shift < 32; shift += 8) {
      std::vector<std::uint32_t> counts(256);
      std::vector<std::uint32_t> quick = counts;
      for (std::uint32_t i = 0; i < count; ++i) {
        ++counts[(stream.at(i) >> shift) & 0xFF];
        ++quick[(stream.quick(i) >> shift) & 0xFF];
      }
      EXPECT_LT(chi_squared(counts, count / 256.0), chi_squared_limit(256)) << "rank " << rank << ", shift " << shift;
      EXPECT_LT(chi_squared(quick, count / 256.0), chi_squared_limit(256)) << "rank " << rank << ", shift " << shift;
    }
  }
}

// Pairs of numbers that codecs take for independent: neighbours, and numbers of neighbouring ranks, steps, buckets and
// parts. The top four bits of both make 256 cells, which must be equally frequent.
TEST(ElementStream, NeighboursAreIndependent) {
  constexpr std::uint32_t count = 1U << 18;
  const ElementStream base = element_stream(13, Purpose::test, 0, 0, 0, 0);
  const double limit = chi_squared_limit(256);
  for (const auto number : {&ElementStream::at, &ElementStream::quick}) {
    const auto pairs = [&](const ElementStream& other, std::uint32_t ahead) {
      std::vector<std::uint32_t> counts(256);
      for (std::uint32_t i = 0; i < count; ++i) {
        ++counts[((base.*number)(i) >> 28) << 4 | (other.*number)(i + ahead) >> 28];
      }
      return chi_squared(counts, count / 256.0);
    };
    for (const std::uint32_t ahead : {1U, 2U, 16U, 64U, 4096U}) EXPECT_LT(pairs(base, ahead), limit) << ahead;
    for (std::uint32_t other = 1; other < 20; ++other) {
      EXPECT_LT(pairs(element_stream(13, Purpose::test, other, 0, 0, 0), 0), limit) << "rank " << other;
      EXPECT_LT(pairs(element_stream(13, Purpose::test, 0, other, 0, 0), 0), limit) << "step " << other;
    }
    EXPECT_LT(pairs(element_stream(13, Purpose::test, 0, 0, 1, 0), 0), limit);
    EXPECT_LT(pairs(element_stream(13, Purpose::test, 0, 0, 0, 1), 0), limit);
    EXPECT_LT(pairs(element_stream(14, Purpose::test, 0, 0, 0, 0), 0), limit);
    EXPECT_GT(pairs(base, 0), limit) << "a number depends on itself: this test can fail";
  }
}

TEST(Shuffle, IsAPermutationThatDependsOnSeedAndIndex) {
  const auto order = [](std::uint64_t seed, std::uint64_t index) {
    std::vector<std::uint32_t> values(1000, 12345);
    shuffle(values, seed, index);
    return values;
  };
  const auto base = order(1, 0);
  EXPECT_EQ(base, order(1, 0));
  EXPECT_NE(base, order(1, 1));
  EXPECT_NE(base, order(2, 0));
  std::vector<std::uint32_t> sorted = base, all(1000);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(sorted, all);
  shuffle({}, 1, 0);
}

TEST(Shuffle, EveryOrderIsEquallyLikely) {
  std::vector<std::uint32_t> counts(64);
  for (std::uint64_t i = 0; i < 24'000; ++i) {
    std::array<std::uint32_t, 3> v;
    shuffle(v, 5, i);
    ++counts[v[0] * 16 + v[1] * 4 + v[2]];
  }
  std::erase(counts, 0U);
  ASSERT_EQ(counts.size(), 6U);
  EXPECT_LT(chi_squared(counts, 4000), chi_squared_limit(6));
}

}  // namespace
}  // namespace sotto
