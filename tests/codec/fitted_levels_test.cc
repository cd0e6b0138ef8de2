// What `alq` and `zipml` promise beyond the laws: zipml's levels are the best there are, and alq's come near them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/codec/quantise/fitted_levels.h"
#include "sotto/kernels/bits.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

Input vector_of(std::vector<float> values) {
  const std::size_t n = values.size();
  return {"w", {{{"w", 0, {static_cast<std::int64_t>(n)}}}, n}, std::move(values)};
}

std::vector<float> heavy_tails(std::size_t n, std::uint64_t seed) {
  std::vector<float> values = gaussian({{{"w", 0, {static_cast<std::int64_t>(n)}}}, n}, seed);
  for (float& v : values) v = v * v * v;
  return values;
}

// A sample of all values, in blocks of `block`.
class WholeSample : public LevelSample {
 public:
  explicit WholeSample(std::span<const float> values, std::size_t block = 512) {
    std::vector<std::byte> norms(block_count(values.size(), block) * sizeof(float));
    largest_magnitudes(values, block, norms);
    take(values, {norms, block, 0}, values.size(), {});
  }
};

std::vector<float> even_levels(std::size_t count) {
  std::vector<float> levels(count);
  for (std::size_t j = 0; j < count; ++j) levels[j] = static_cast<float>(j) / static_cast<float>(count - 1);
  return levels;
}

std::vector<float> optimal_levels(const LevelSample& sample, std::size_t candidates, std::size_t count) {
  OptimalLevels optimal;
  std::vector<float> levels = even_levels(count);
  optimal.find(sample, candidates, levels);
  return levels;
}

// By the definition: each value lies between two levels, and is rounded to one of them without bias.
double variance_by_value(std::span<const float> values, std::size_t block, std::span<const float> levels) {
  double sum = 0;
  for (std::size_t at = 0; at < values.size(); at += block) {
    const auto some = values.subspan(at, std::min(block, values.size() - at));
    double norm = 0;
    for (const float v : some) norm = std::max(norm, std::abs(static_cast<double>(v)));
    for (const float v : some) {
      const double r = std::abs(static_cast<double>(v)) / norm;
      std::size_t j = 1;
      while (j + 1 < levels.size() && static_cast<double>(levels[j]) < r) ++j;
      sum += norm * norm * (static_cast<double>(levels[j]) - r) * (r - static_cast<double>(levels[j - 1]));
    }
  }
  return sum;
}

// The least variance of `count` levels with 0 and 1, of all choices among the values.
double least_by_force(const LevelSample& sample, std::size_t count) {
  const auto shares = sample.shares();
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> chosen(shares.size(), 0);
  std::fill_n(chosen.begin(), count - 2, 1);
  do {
    std::vector<float> levels{0};
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (chosen[i] != 0) levels.push_back(shares[i]);
    }
    levels.push_back(1);
    least = std::min(least, sample.variance(levels));
  } while (std::ranges::prev_permutation(chosen).found);
  return least;
}

TEST(LevelSample, VarianceIsThatOfTheValues) {
  for (const std::size_t block : {30, 512}) {
    const auto values = heavy_tails(700, 70);
    const WholeSample sample(values, block);
    for (const std::size_t count : {2, 4, 16}) {
      const auto levels = even_levels(count);
      const double expected = variance_by_value(values, block, levels);
      EXPECT_NEAR(sample.variance(levels), expected, 1e-5 * expected) << block << " " << count;
    }
  }
}

TEST(ZipMl, NoLevelsAreBetter) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const bool tails : {false, true}) {
      for (const std::size_t block : {4, 14}) {
        const auto values = tails ? heavy_tails(14, seed) : gaussian({{{"w", 0, {14}}}, 14}, seed);
        const WholeSample sample(values, block);
        for (const std::size_t count : {4, 8}) {
          const auto levels = optimal_levels(sample, 100, count);
          ASSERT_TRUE(std::ranges::is_sorted(levels));
          const double least = least_by_force(sample, count);
          const double scale = square_norm(values);
          EXPECT_NEAR(sample.variance(levels), least, 1e-12 * scale);
          // Nor are levels that are no values of the sample.
          Philox random(seed, Purpose::test);
          for (int trial = 0; trial < 200; ++trial) {
            auto others = levels;
            for (std::size_t j = 1; j + 1 < count; ++j) others[j] = static_cast<float>(random.uniform());
            std::ranges::sort(others);
            EXPECT_GE(sample.variance(others), least - 1e-12 * scale);
          }
        }
      }
    }
  }
}

TEST(ZipMl, FewCandidatesAreNearlyAsGood) {
  const WholeSample sample(heavy_tails(20000, 71));
  for (const std::size_t count : {4, 8, 16}) {
    const double best = sample.variance(optimal_levels(sample, 20000, count));
    const double some = sample.variance(optimal_levels(sample, 256, count));
    EXPECT_GE(some, best * (1 - 1e-9));
    EXPECT_LE(some, best * 1.05) << count;
  }
}

// With many levels, and a long tail whose values are far apart, neighbouring levels have no values between them and
// stay: the more levels, the farther from the least.
TEST(Alq, TheVarianceNeverRisesAndEndsNearTheLeast) {
  for (const auto& [bucket, count, near] : {std::tuple{std::size_t{64}, std::size_t{4}, 1.01},
                                            {64, 8, 1.01},
                                            {64, 16, 1.05},
                                            {64, 32, 1.3},
                                            {512, 4, 1.01},
                                            {512, 8, 1.02},
                                            {512, 16, 1.05},
                                            {20000, 8, 1.05},
                                            {20000, 32, 2}}) {
    const WholeSample sample(heavy_tails(20000, 72), bucket);
    const double least = sample.variance(optimal_levels(sample, 20000, count));
    auto levels = even_levels(count);
    const double first = sample.variance(levels);
    double last = first;
    int rounds = 0;
    for (; descend(sample, levels); ++rounds) {
      ASSERT_LT(rounds, 100000);
      const double now = sample.variance(levels);
      ASSERT_TRUE(std::ranges::is_sorted(levels));
      ASSERT_LE(now, last * (1 + 1e-9));
      last = now;
    }
    EXPECT_LT(last, 0.8 * first) << bucket << " " << count;
    EXPECT_GE(last, least * (1 - 1e-9));
    EXPECT_LE(last, near * least) << bucket << " " << count << ": " << last / least << " after " << rounds;
  }
}

// A level at the mean of its neighbours' pull is a minimum: of three values, the best single level is the weighted one.
TEST(Alq, ALevelGoesWhereTheSlopeTurns) {
  // Between 0 and 1 with shares .2 .5 .6 and 1: the slope after share r is .2 + .5 + .6 less the number above r.
  const std::vector<float> values{0.2F, 0.5F, 0.6F, 1};
  const WholeSample sample(values);
  std::vector<float> levels{0, 0.9F, 1};
  EXPECT_TRUE(descend(sample, levels));
  EXPECT_EQ(levels[1], 0.5F);
  EXPECT_FALSE(descend(sample, levels));
  EXPECT_NEAR(sample.variance(levels), 0.3 * 0.2 + 0.1 * 0.4, 1e-6);
}

TEST(FittedLevels, AreInTheMessage) {
  const Input input = vector_of(heavy_tails(3000, 73));
  const WholeSample sample(input.values);
  const auto codec = make_codec(read_stages("zipml(bits=3, candidates=4096)"));
  const auto message = encode(*codec, input);
  EXPECT_EQ(message.size(), sizeof(Header) + 6 * 4 + 6 * 4 + 3000 / 8 * 4);
  const auto expected = optimal_levels(sample, 4096, 8);
  for (std::size_t j = 0; j < 6; ++j) {
    EXPECT_EQ(kernels::load<float>(message.data() + sizeof(Header), j), expected[j + 1]);
  }
}

TEST(FittedLevels, FewMagnitudesAreExact) {
  std::vector<float> values;
  for (std::size_t i = 0; i < 1000; ++i) {
    values.push_back((i % 3 == 0 ? -1.0F : 1.0F) * std::array{0.0F, 0.37F, 2.5F, 8.0F}[i % 4]);
  }
  const Input input = vector_of(values);
  for (const char* expression : {"zipml(bits=2)", "zipml(bits=5)"}) {
    const auto codec = make_codec(read_stages(expression));
    const auto decoded = decode(*codec, input, encode(*codec, input));
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(decoded[i], values[i], 1e-6) << expression;
  }
}

// At the same number of bits, levels that fit leave less error than equal ones: the more, the longer the tail.
TEST(FittedLevels, LeaveLessErrorThanEqualOnes) {
  const Input input = vector_of(heavy_tails(60000, 74));  // longer than the sample
  const auto error = [&](const std::string& expression) {
    const auto codec = make_codec(read_stages(expression));
    return square_distance(decode(*codec, input, encode(*codec, input)), input.values);
  };
  for (const int bits : {2, 3, 4}) {
    const double equal = error(fmt::format("qsgd(bits={})", bits));
    const double best = error(fmt::format("zipml(bits={})", bits));
    const double near = error(fmt::format("alq(bits={})", bits));
    EXPECT_LT(best, 0.6 * equal) << bits;
    EXPECT_LT(near, 0.7 * equal) << bits;
    EXPECT_LT(best, 1.03 * near) << bits;
  }
}

}  // namespace
}  // namespace sotto::testing
