// What quantisers promise beyond the laws: variances in closed form, and what is special about each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "tests/codec/fixture.h"
#include "tests/support/message_of.h"

namespace sotto::testing {
namespace {

using test::message_of;

// Segments of 250 and of 30 elements, for blocks of 100.
Input two_segments() {
  const Layout layout({{"a", 0, {250}}, {"b", 250, {5, 6}}}, 280);
  return {"gaussian", layout, gaussian(layout, 61)};
}

// The sum of of(values) over all blocks: E |C(x)-x|^2 where `of` gives it for one block.
double over_blocks(const Input& input, std::size_t block, const std::function<double(std::span<const float>)>& of) {
  double sum = 0;
  for (const Segment& segment : input.layout.segments()) {
    const std::size_t n = segment.numel();
    for (std::size_t at = 0; at < n; at += block) {
      sum += of(std::span(input.values).subspan(segment.offset + at, std::min(block, n - at)));
    }
  }
  return sum;
}

double largest(std::span<const float> values) {
  double most = 0;
  for (const float v : values) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// The mean of |C(x)-x|^2 over 3000 draws is a sum of independent terms. For all but one seed in 150 000 it lies within
// 4.5 standard errors of the expected value, and the seed is always the same.
void expect_variance(const std::string& expression, const Input& input, double expected) {
  constexpr int draws = 3000;
  const auto codec = make_codec(read_stages(expression));
  double sum = 0;
  double squares = 0;
  for (std::uint32_t step = 0; step < draws; ++step) {
    const auto decoded = decode(*codec, input, encode(*codec, input, {.seed = 62, .step = step}));
    const double error = square_distance(decoded, input.values);
    sum += error;
    squares += error * error;
  }
  const double mean = sum / draws;
  const double deviation = std::sqrt((squares / draws - mean * mean) / draws);
  EXPECT_GT(deviation, 0) << expression;
  EXPECT_LT(deviation, 0.01 * expected) << expression;  // precise enough to tell right from wrong
  EXPECT_LT(std::abs(mean - expected), 4.5 * deviation) << expression << ": " << mean << ", not " << expected;
}

// The sum of (norm/S)^2 f (1-f), where f is the fractional part of S|v|/norm and S is `top`.
double variance_of_levels(std::span<const float> values, double norm, double top) {
  double sum = 0;
  for (const float v : values) {
    const double y = top * std::abs(static_cast<double>(v)) / norm;
    const double f = y - std::floor(y);
    sum += norm / top * (norm / top) * f * (1 - f);
  }
  return sum;
}

TEST(Variance, OfQsgdIsThatOfItsCoins) {
  const Input input = two_segments();
  for (const int bits : {1, 2, 4, 8}) {
    const double top = (1 << bits) - 1;
    const auto expression = [&](const char* norm) {
      return "qsgd(bits=" + std::to_string(bits) + ", bucket=100, norm=" + norm + ")";
    };
    expect_variance(expression("max"), input, over_blocks(input, 100, [&](std::span<const float> some) {
                      return variance_of_levels(some, largest(some), top);
                    }));
    expect_variance(expression("l2"), input, over_blocks(input, 100, [&](std::span<const float> some) {
                      return variance_of_levels(some, std::sqrt(square_norm(some)), top);
                    }));
  }
}

TEST(Variance, OfFittedLevelsIsThatOfTheTwoLevelsBesideAValue) {
  const Input input = two_segments();
  for (const auto& [text, bits] : {std::pair{"alq(bits={}, bucket=100)", 2},
                                   {"alq(bits={}, bucket=100, rounds=2)", 3},
                                   {"zipml(bits={}, bucket=100)", 2},
                                   {"zipml(bits={}, bucket=100)", 4}}) {
    const std::string expression = fmt::format(fmt::runtime(text), bits);
    const auto codec = make_codec(read_stages(expression));
    const std::size_t between = (std::size_t{1} << bits) - 2;
    // Of segments that are no longer than the sample, levels are the same in each step. Those of the second segment
    // come after the levels and the three norms of the first.
    const auto message = encode(*codec, input);
    double expected = 0;
    for (const std::size_t s : {0, 1}) {
      std::vector<double> levels{0};
      for (std::size_t j = 0; j < between; ++j) {
        levels.push_back(kernels::load<float>(message.data() + sizeof(Header), s * (between + 3) + j));
      }
      levels.push_back(1);
      const auto values = std::span(input.values).subspan(s * 250, s == 0 ? 250 : 30);
      for (std::size_t at = 0; at < values.size(); at += 100) {
        const auto some = values.subspan(at, std::min<std::size_t>(100, values.size() - at));
        const double norm = largest(some);
        for (const float v : some) {
          const double r = std::abs(static_cast<double>(v)) / norm;
          const auto high = std::ranges::lower_bound(levels, r);
          if (high != levels.begin()) expected += norm * norm * (*high - r) * (r - *(high - 1));
        }
      }
    }
    expect_variance(expression, input, expected);
  }
}

TEST(Variance, OfTernGradIsScaleTimesSumOfMagnitudesLessSquares) {
  const Input input = two_segments();
  const double expected = over_blocks(input, 1000, [](std::span<const float> some) {
    double magnitudes = 0;
    for (const float v : some) magnitudes += std::abs(static_cast<double>(v));
    return largest(some) * magnitudes - square_norm(some);
  });
  expect_variance("terngrad(clip=0)", input, expected);
  expect_variance("terngrad(clip=0, pack=trits)", input, expected);
  expect_variance("terngrad(clip=0, shared=true)", input, expected);
}

TEST(Variance, OfTernGradWithSeveralLevelsIsThatOfTheirCoins) {
  const Input input = two_segments();
  for (const int bits : {2, 3, 4}) {
    const double expected = over_blocks(input, 1000, [&](std::span<const float> some) {
      return variance_of_levels(some, largest(some), (1 << bits) - 1);
    });
    for (const char* shared : {"false", "true"}) {
      expect_variance(fmt::format("terngrad(clip=0, bits={}, shared={})", bits, shared), input, expected);
    }
  }
}

TEST(Variance, OfNaturalIsThatOfTheTwoPowersBesideAValue) {
  // Values around 1, every third one larger; denormals; and values some of which are above 2^127.
  for (const auto& [scale, third] : {std::pair{1.0F, 1000.0F}, {1e-42F, 1.0F}, {1.5e38F, 1.0F}}) {
    Input input = two_segments();
    for (std::size_t i = 0; i < input.values.size(); ++i) {
      const double value = static_cast<double>(input.values[i]) * scale * (i % 3 == 0 ? third : 1);
      input.values[i] = static_cast<float>(std::clamp<double>(value, -largest_float, largest_float));
    }
    const double expected = over_blocks(input, 4096, [](std::span<const float> some) {
      double sum = 0;
      for (const float v : some) {
        const double x = std::abs(static_cast<double>(v));
        const double power = std::exp2(std::floor(std::log2(x)));
        sum += (2 * power - x) * (x - power);
      }
      return sum;
    });
    EXPECT_LT(expected, square_norm(input.values) / 8);
    expect_variance("natural", input, expected);
  }
}

TEST(Natural, SendsPowersOfTwoAndZeroAsTheyAre) {
  constexpr std::size_t blocks = 3 * 4096;
  const Layout layout({{"w", 0, {blocks}}}, blocks);
  Input input{"powers", layout, std::vector<float>(blocks)};
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::array largest{0, -40, 127};  // exponents; in the second block they reach down to the smallest float
    const int exponent = std::max(largest[i / 4096] - static_cast<int>(i % 126), -149);
    input.values[i] = i % 5 == 0 ? 0 : std::ldexp(i % 2 == 0 ? 1.0F : -1.0F, exponent);
  }
  const auto codec = make_codec(read_stages("natural"));
  EXPECT_EQ(decode(*codec, input, encode(*codec, input)), input.values);
}

TEST(Natural, HasTheLargestFloatInPlaceOfThePowerAboveIt) {
  const Layout layout({{"w", 0, {2}}}, 2);
  const auto codec = make_codec(read_stages("natural"));
  const auto decoded = decode(*codec, {"", layout, {-largest_float, 0x1p127F}},
                              encode(*codec, {"", layout, {-largest_float, 0x1p127F}}));
  EXPECT_EQ(decoded, (std::vector<float>{-largest_float, 0x1p127F}));
}

// In a block with the largest number of the format, every number of the format is exact, and all of them times a power
// of two are exact, too.
TEST(Fp8, SendsWhatTheFormatHasAsItIs) {
  for (const bool e4m3 : {true, false}) {
    const int mantissa = e4m3 ? 3 : 2;
    const int bias = e4m3 ? 7 : 15;
    const unsigned last = e4m3 ? 0x7E : 0x7B;
    const auto codec = make_codec(read_stages(e4m3 ? "fp8" : "fp8(e5m2)"));
    for (const int power : {0, -50, 60, -100}) {
      const Layout layout({{"w", 0, {2, last + 1}}}, 2 * (last + 1));
      Input input{"all", layout, {}};
      for (unsigned bits = 0; bits <= last; ++bits) {
        const auto exponent = static_cast<int>(bits >> mantissa);
        const float fraction = std::ldexp(static_cast<float>(bits & ((1U << mantissa) - 1)), -mantissa);
        const float value = std::ldexp(exponent == 0 ? fraction : 1 + fraction, std::max(exponent, 1) - bias + power);
        input.values.insert(input.values.end(), {value, -value});
      }
      EXPECT_EQ(decode(*codec, input, encode(*codec, input)), input.values) << power;
    }
  }
}

TEST(Fp8, RoundsToTheNearestAndEven) {
  const Layout layout({{"w", 0, {8}}}, 8);
  const Input input{"ties", layout, {448, 17, 19, 0x1.8p-9F, 0x1.ap-9F, 0x1p-10F, -0x1.8p-10F, 433}};
  const auto codec = make_codec(read_stages("fp8"));
  EXPECT_EQ(decode(*codec, input, encode(*codec, input)),
            (std::vector<float>{448, 16, 20, 0x1p-8F, 0x1p-8F, 0, -0x1p-9F, 448}));
  const Input small{"small", layout, {1e-6F, 5e-7F, -1e-6F, 1e-8F, 0, 9e-7F, 3e-7F, 2e-7F}};
  const auto decoded = decode(*codec, small, encode(*codec, small));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(decoded[i], small.values[i], std::abs(small.values[i]) / 16) << i;
}

int bits_of(const std::vector<std::byte>& message) {
  return kernels::load<std::int32_t>(message.data() + sizeof(Header), 0);
}

TEST(Adaptive, TakesTheFewestBitsThatKeepTheBudget) {
  const Layout layout({{"w", 0, {2000}}}, 2000);
  const Input input{"gaussian", layout, gaussian(layout, 63)};
  double norms = 0;
  for (std::size_t at = 0; at < 2000; at += 512) {
    const auto some = std::span(input.values).subspan(at, std::min<std::size_t>(512, 2000 - at));
    norms += largest(some) * largest(some) * static_cast<double>(some.size());
  }
  for (int bits = 1; bits <= 8; ++bits) {
    const auto top = [](int b) { return static_cast<double>((1 << b) - 1); };
    const double just = std::sqrt(norms / (4 * top(bits) * top(bits)) / square_norm(input.values));
    const auto codec = make_codec(read_stages("adaptive(error=" + std::to_string(just * 1.01) + ")"));
    const auto message = encode(*codec, input);
    EXPECT_EQ(bits_of(message), bits);
    EXPECT_EQ(message.size(), sizeof(Header) + 4 + 4 * 4 + static_cast<std::size_t>(250 * (bits + 1)));
    const double error = square_distance(decode(*codec, input, message), input.values);
    EXPECT_LT(error, just * just * square_norm(input.values));
    if (bits == 8) continue;
    EXPECT_EQ(bits_of(encode(*make_codec(read_stages("adaptive(error=" + std::to_string(just * 0.99) + ")")), input)),
              bits + 1);
  }
  EXPECT_EQ(bits_of(encode(*make_codec(read_stages("adaptive(error=1e-9, bits=3)")), input)), 3);
  EXPECT_EQ(bits_of(encode(*make_codec(read_stages("adaptive")), {"zero", layout, std::vector<float>(2000)})), 1);
}

TEST(Adaptive, GivesEachSegmentItsOwnBits) {
  const Layout layout({{"even", 0, {512}}, {"spiky", 512, {512}}}, 1024);
  Input input{"two", layout, std::vector<float>(1024, 0.5F)};
  for (std::size_t i = 512; i < 1024; ++i) input.values[i] = i % 100 == 0 ? 5 : 0.5F;
  const auto message = encode(*make_codec(read_stages("adaptive(error=0.3)")), input);
  const std::byte* body = message.data() + sizeof(Header);
  EXPECT_EQ(kernels::load<std::uint32_t>(body, 0), 2U);
  EXPECT_EQ(kernels::load<std::uint32_t>(body, 2), 4U);
  EXPECT_EQ(message.size(), sizeof(Header) + 2 * 8 + 512 * 3 / 8 + 512 * 5 / 8);
}

TEST(TernGrad, NamesAllItsOptionsAndRefusesOthers) {
  const auto canonical = [](const char* expression) { return make_codec(read_stages(expression))->traits().text; };
  EXPECT_EQ(canonical("terngrad"), "terngrad(clip=2.5, shared=false, pack=bits, bits=1)");
  EXPECT_EQ(canonical("terngrad(1, true, bits, 2)"), "terngrad(clip=1, shared=true, pack=bits, bits=2)");
  for (const char* bad : {"terngrad(bits=0)", "terngrad(bits=5)", "terngrad(bits=2, pack=trits)"}) {
    EXPECT_THROW(make_codec(read_stages(bad)), ConfigError) << bad;
  }
}

// The published clip: so many standard deviations, about the mean.
TEST(TernGrad, ClipsByTheDeviation) {
  constexpr std::size_t n = 20000;
  const Layout layout({{"w", 0, {n}}}, n);
  const auto scale_of = [&](std::span<const float> values) {
    const auto codec = make_codec(read_stages("terngrad"));
    const auto message = encode(*codec, Input{"", layout, {values.begin(), values.end()}});
    return kernels::load<float>(message.data() + sizeof(Header), 0);
  };
  const std::vector<float> noise = gaussian(layout, 5);
  for (const float mean : {0.0F, 0.5F, 3.0F}) {
    std::vector<float> values = noise;
    double sum = 0, squares = 0;
    for (float& value : values) {
      value += mean;
      sum += value;
    }
    for (const float value : values) squares += std::pow(value - sum / n, 2);
    EXPECT_NEAR(scale_of(values), 2.5 * std::sqrt(squares / n), 1e-5) << mean;
  }
  // Values that hardly differ would all be cut by their deviation, and equal ones to nothing.
  std::vector<float> values(n, 3.0F);
  EXPECT_EQ(scale_of(values), 3.0F);
  for (std::size_t i = 0; i < n; ++i) values[i] += 0.1F * noise[i];
  EXPECT_EQ(scale_of(values), *std::ranges::max_element(values));
}

TEST(TernGrad, AFifthOfAByteAValue) {
  const Layout layout({{"w", 0, {1003}}}, 1003);
  const Input input{"gaussian", layout, gaussian(layout, 64)};
  const auto bits = make_codec(read_stages("terngrad"));
  const auto trits = make_codec(read_stages("terngrad(pack=trits)"));
  EXPECT_EQ(encode(*trits, input).size(), sizeof(Header) + 4 + 201);
  EXPECT_EQ(decode(*trits, input, encode(*trits, input)), decode(*bits, input, encode(*bits, input)));
}

TEST(TernGrad, ASharedScaleIsOfWholeSegments) {
  for (const char* front : {"topk(0.1) | ", "dct | ", "svd | atomo(s=2) | "}) {
    const auto refusal = message_of([&] { make_codec(read_stages(std::string(front) + "terngrad(shared=true)")); });
    EXPECT_NE(refusal.find("no transform or selection can stand before it"), std::string::npos) << refusal;
  }
  // Another rank may have a larger scale: every value that is not 0 is then sent with that scale.
  const Input input = two_segments();
  const auto codec = make_codec(read_stages("terngrad(clip=0, shared=true)"));
  ASSERT_EQ(codec->agreed_count(input.layout), 2U);
  std::vector<float> values = input.values;
  const Bucket bucket{values, &input.layout, 0};
  std::vector<float> numbers(2);
  codec->propose(bucket, numbers);
  EXPECT_EQ(numbers[0], largest(std::span(values).first(250)));
  EXPECT_EQ(numbers[1], largest(std::span(values).subspan(250)));
  numbers = {7, 8};
  const std::vector<Range> parts{{0, 250}, {250, 280}};
  std::vector<Message> messages(2);
  codec->encode(bucket, {}, numbers, parts, messages);
  std::vector<float> out(280);
  for (std::size_t p = 0; p < 2; ++p) add_part(*codec, input.layout, parts[p], messages[p].bytes(), 1, out);
  for (std::size_t i = 0; i < 280; ++i) {
    EXPECT_TRUE(out[i] == 0 || out[i] == std::copysign(i < 250 ? 7.0F : 8.0F, values[i])) << i;
  }
  values[3] = NAN;
  codec->propose(bucket, numbers);
  EXPECT_EQ(numbers[0], 0);  // the other ranks continue; this rank finds the error when it encodes
  EXPECT_THROW(codec->encode(bucket, {}, numbers, parts, messages), NumericError);
}

}  // namespace
}  // namespace sotto::testing
