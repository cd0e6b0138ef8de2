// Compares bins with quantiles found by sorting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

std::vector<float> sent(const std::string& expression, const std::vector<float>& values) {
  const Input input{"w", {{{"w", 0, {static_cast<std::int64_t>(values.size())}}}, values.size()}, values};
  const auto codec = make_codec(read_stages(expression));
  return decode(*codec, input, encode(*codec, input));
}

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  return gaussian({{{"w", 0, {static_cast<std::int64_t>(count)}}}, count}, seed);
}

// The magnitudes of one sign, ascending, each with the magnitude it was sent as.
using Pairs = std::vector<std::pair<float, float>>;
Pairs of_sign(const std::vector<float>& values, const std::vector<float>& decoded, float sign) {
  Pairs pairs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] * sign > 0) pairs.emplace_back(values[i] * sign, decoded[i] * sign);
  }
  std::ranges::sort(pairs);
  return pairs;
}

// Every bin is a run of the sorted values, all runs are equally long, and each value is sent as the middle of its bin.
TEST(Quantile, BinsAreEqualSharesOfWhatIsSortedAndSentAsTheirMiddles) {
  for (const std::size_t count : {2000U, 20000U, 32768U}) {
    for (const std::size_t bins : {8U, 100U, 256U}) {
      const auto values = normal(count, count);
      const auto decoded = sent("quantile(bins=" + std::to_string(bins) + ")", values);
      std::size_t found = 0;
      for (const float sign : {1.0F, -1.0F}) {
        const Pairs pairs = of_sign(values, decoded, sign);
        for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end, ++found) {
          while (end < pairs.size() && pairs[end].second == pairs[begin].second) ++end;
          // Each sign has a whole number of bins, so the bins of one sign may be larger.
          const double share = static_cast<double>(count) / static_cast<double>(bins - 1);
          EXPECT_NEAR(static_cast<double>(end - begin), share, 1 + share / static_cast<double>(bins - 3));
          const float low = pairs[begin].first;
          const float high = pairs[end - 1].first;
          EXPECT_EQ(pairs[begin].second, low + (high - low) * 0.5F);
        }
      }
      EXPECT_EQ(found, bins - 1);
    }
  }
}

TEST(Quantile, SampledBinsHaveAboutEqualShares) {
  const std::size_t count = 300000;
  auto values = normal(count, 3);
  for (std::size_t i = 0; i < count; ++i) values[i] *= i < count / 2 ? 1.0F : 0.001F;  // the order matters
  const auto decoded = sent("quantile", values);
  std::map<float, double> share;
  for (const float value : decoded) share[value] += 255.0 / static_cast<double>(count);
  EXPECT_EQ(share.size(), 255U);
  // A bin has 118 values of a sample of 30000, so the standard deviation of its share is a tenth.
  double square = 0;
  for (const auto& [value, of_bin] : share) {
    EXPECT_NEAR(of_bin, 1, 0.5) << value;
    square += (of_bin - 1) * (of_bin - 1) / 255;
  }
  EXPECT_LT(std::sqrt(square), 0.15);
}

TEST(Quantile, TheErrorOfASampleIsHardlyMore) {
  // Compares exact bins of pieces with sampled bins of the whole. Tails are left out, since their middles vary widely.
  const std::size_t pieces = 10, size = 32000;
  std::vector<float> all;
  const auto square_error = [](const std::vector<float>& values) {
    const auto decoded = sent("quantile", values);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) < 2) sum += (values[i] - decoded[i]) * (values[i] - decoded[i]);
    }
    return sum;
  };
  double exact = 0;
  for (std::size_t p = 0; p < pieces; ++p) {
    const auto values = normal(size, 100 + p);
    exact += square_error(values);
    all.insert(all.end(), values.begin(), values.end());
  }
  EXPECT_LT(square_error(all), 1.1 * exact);
  EXPECT_LT(exact, 1e-4 * static_cast<double>(all.size()));
}

// However few values are not zero, and wherever they stand, they have the bins that they would have without the zeros.
TEST(Quantile, ZerosAmongThemChangeNothing) {
  const std::size_t count = 1'000'000;
  Philox random(11, Purpose::test);
  for (const double share : {2e-5, 0.01, 0.1, 0.9}) {
    for (const bool together : {false, true}) {  // the values that are not zero stand in one stretch
      std::vector<float> values = normal(count, 12), alone;
      for (std::size_t i = 0; i < count; ++i) {
        const bool is_zero =
            together ? std::abs(static_cast<double>(i) / count - 0.4) > share / 2 : random.uniform() >= share;
        if (is_zero) {
          values[i] = 0;
        } else {
          alone.push_back(values[i]);
        }
      }
      const auto decoded = sent("quantile", values);
      const auto of_them = sent("quantile", alone);
      auto wanted = of_them.begin();
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(decoded[i], values[i] == 0 ? 0 : *wanted++) << share << ", " << i;
        error += std::pow(decoded[i] - values[i], 2);
        norm += std::pow(values[i], 2);
      }
      // The error of normal values in 255 equal bins; tails are longer where there are more values.
      EXPECT_LT(std::sqrt(error / norm), share < 1e-3 ? 1e-9 : share < 0.05 ? 0.055 : 0.08) << share;
    }
  }
}

TEST(Quantile, FewDifferentValuesAreExact) {
  const std::vector<float> levels{0, 1e-45F, -3e-42F, 0.25F, -0.25F, 1, 3, -7, 3.4e38F, -3.4e38F};
  std::vector<float> values(254);
  Philox random(5, Purpose::test);
  for (float& value : values) value = levels[random.below(static_cast<std::uint32_t>(levels.size()))];
  EXPECT_EQ(sent("quantile", values), values);
  const auto distinct = normal(255, 6);
  EXPECT_EQ(sent("quantile", distinct), distinct);
}

TEST(Quantile, HasABinForASignThatTheSampleMissed) {
  for (const float one : {5.0F, -5.0F}) {
    for (std::size_t i = 0; i < 30; ++i) {
      std::vector<float> values(70000 + i, 0.0F);
      values[997 * i] = one;
      EXPECT_EQ(sent("quantile", values), values);
      std::ranges::fill(values, -one);
      values[997 * i] = one;
      EXPECT_EQ(sent("quantile(bins=3)", values), values);
    }
  }
}

// Runs `test` on inputs of many lengths, scales and shares of zeros, with different options.
template <class Test>
void on_random_inputs(Test test) {
  Philox random(7, Purpose::test);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<float> values(1 + random.below(trial % 30 == 0 ? 60000 : 3000));
    const std::uint32_t zeros = random.below(4);
    const double power = 1 + random.below(5);
    for (float& value : values) {
      const double x = random.normal();
      value = random.below(4) < zeros ? 0.0F : static_cast<float>(std::copysign(std::pow(std::abs(x), power), x));
    }
    const std::string bins = "quantile(bins=" + std::to_string(3 + random.below(254)) + ")";
    const std::string sketch = " | minmax_sketch(groups=" + std::to_string(2 + random.below(63)) +
                               ", rows=" + std::to_string(1 + random.below(4)) +
                               ", columns=" + std::to_string(0.05 + 0.2 * random.below(5)) + ")";
    SCOPED_TRACE(bins + sketch + ", " + std::to_string(values.size()) + " values");
    test(values, bins, sketch);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Quantile, ZerosStayZerosAndNoSignChanges) {
  on_random_inputs([](const std::vector<float>& values, const std::string& bins, const std::string&) {
    const auto decoded = sent(bins, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i] < 0, decoded[i] < 0);
      ASSERT_EQ(values[i] > 0, decoded[i] > 0);
    }
  });
}

// A value may still grow, to the middle of its bin.
TEST(MinMaxSketch, NeverChangesASignNorMovesABinAwayFromZero) {
  std::size_t shrunk = 0, grown = 0;
  on_random_inputs([&](const std::vector<float>& values, const std::string& bins, const std::string& sketch) {
    const auto binned = sent(bins, values);
    const auto decoded = sent(bins + sketch, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(decoded[i]), std::abs(binned[i]));
      ASSERT_EQ(values[i] < 0, decoded[i] < 0);
      ASSERT_EQ(values[i] > 0, decoded[i] > 0);
      shrunk += decoded[i] != binned[i] ? 1 : 0;
      grown += std::abs(decoded[i]) > std::abs(values[i]) ? 1 : 0;
    }
  });
  EXPECT_GT(shrunk, 1000U);
  EXPECT_GT(grown, 1000U);
}

// A value is decoded to a bin of its group, so it moves by less than the number of bins in a group.
TEST(MinMaxSketch, StaysWithinTheGroup) {
  const auto values = normal(30000, 8);
  const auto binned = sent("quantile(bins=129)", values);
  std::map<float, int> bin;  // the number of each sent value, in ascending order; about 64 for each sign
  for (const float value : binned) bin[value];
  int number = 0;
  for (auto& [value, its_number] : bin) its_number = number++;
  ASSERT_EQ(bin.size(), 128U);
  for (const int groups : {2, 8, 32, 64}) {
    const auto decoded = sent("quantile(bins=129) | minmax_sketch(groups=" + std::to_string(groups) + ")", values);
    int most = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(bin.contains(decoded[i]));
      most = std::max(most, std::abs(bin[decoded[i]] - bin[binned[i]]));
    }
    EXPECT_LE(most, (65 + groups / 2 - 1) / (groups / 2) - 1);
    EXPECT_GT(most, 0);
  }
  EXPECT_EQ(sent("quantile(bins=33) | minmax_sketch(groups=32)", values), sent("quantile(bins=33)", values));
}

// A value that shares no cell comes back exactly. The more cells there are, the fewer values share all of theirs.
TEST(MinMaxSketch, SmallerErrorsTakeMoreCells) {
  const auto values = normal(100000, 9);
  const auto binned = sent("quantile", values);
  double last = 1e30;
  for (const char* cells : {"rows=1, columns=0.3", "rows=2, columns=0.3", "rows=2, columns=0.6", "rows=4, columns=1"}) {
    const double error =
        square_distance(sent(std::string("quantile | minmax_sketch(8, ") + cells + ")", values), binned);
    EXPECT_LT(error, 0.9 * last) << cells;
    last = error;
  }
}

TEST(MinMaxSketch, TakesTheBytesThatItSays) {
  for (const std::size_t count : {100000U, 65536U}) {
    const Input input{"w", {{{"w", 0, {static_cast<std::int64_t>(count)}}}, count}, normal(count, 10)};
    const auto codec = make_codec(read_stages("quantile | minmax_sketch"));
    // The message has 8 classes in 3 bits a value, two rows of 0.3 cells a value in 5 bits (but about one class has 33
    // bins), 255 bins, and the counts of the classes.
    const double bytes = static_cast<double>(encode(*codec, input).size());
    EXPECT_NEAR(bytes, static_cast<double>(count) * (0.375 + 0.375 + 20.0 / 16384) + 4 * 255 + 32, 1000);
    EXPECT_GE(static_cast<double>(codec->max_bytes(input.layout, {0, count})), bytes);
  }
}

TEST(MinMaxSketch, WantsBinsInFrontOfIt) {
  const auto error = [](const std::string& expression) -> std::string {
    try {
      make_codec(read_stages(expression));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  for (const char* expression : {"minmax_sketch", "topk | minmax_sketch", "minmax_sketch | zstd"}) {
    EXPECT_NE(error(expression).find("as in quantile | minmax_sketch"), std::string::npos) << error(expression);
  }
  for (const char* expression :
       {"qsgd | minmax_sketch", "quantile | quantile", "quantile | minmax_sketch | minmax_sketch"}) {
    EXPECT_NE(error(expression).find("a second quantise stage"), std::string::npos) << error(expression);
  }
  EXPECT_EQ(make_codec(read_stages("quantile | minmax_sketch"))->traits().text,
            "quantile(bins=256) | minmax_sketch(groups=8, rows=2, columns=0.3)");
}

}  // namespace
}  // namespace sotto::testing
