// Laws that every stage keeps, over all combinations of the table's stages and all inputs. A new stage is tested once
// it is in the table, and in more combinations once it is in listed_codecs(); the first test here checks that it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/laws.h"
#include "tests/kernels/targets.h"

namespace sotto::testing {
namespace {

TEST(ListedCodecs, HaveEveryStageOfTheTable) {
  const auto expressions = listed_codecs();
  for (const StageEntry& stage : stage_table()) {
    EXPECT_TRUE(std::any_of(expressions.begin(), expressions.end(), [&](const std::string& expression) {
      const auto calls = parse_expression("test", make_codec(read_stages(expression))->traits().text).calls;
      return std::ranges::find(calls, stage.name, &Call::name) != calls.end();
    })) << stage.name;
  }
}

TEST(Laws, CanonicalTextMakesTheSameCodec) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    EXPECT_EQ(make_codec(read_stages(codec->traits().text))->traits().text, codec->traits().text);
  });
}

TEST(Laws, AnotherInstanceDecodesWithinTheContract) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression), other = fresh(expression);
    const bool stochastic = is_stochastic(expression);
    for (const Input& input : all_inputs()) {
      const Contract contract = codec->contract(input.layout);
      std::vector<std::byte> message;
      try {
        message = encode(*codec, input);
      } catch (const NumericError&) {
        EXPECT_FALSE(fits(expression, input)) << input.name;
        continue;
      }
      EXPECT_LE(message.size(), codec->max_bytes(input.layout, {0, input.layout.size()})) << input.name;
      const auto decoded = decode(*other, input, message);
      EXPECT_TRUE(std::all_of(decoded.begin(), decoded.end(), [](float x) { return std::isfinite(x); })) << input.name;
      expect_clean_padding(input, decoded);
      if (contract.kind == Contract::Kind::exact) {
        EXPECT_EQ(decoded, input.values) << input.name;
      }
      if (contract.kind == Contract::Kind::rounding) {
        EXPECT_LE(square_distance(decoded, input.values), 1e-10 * square_norm(input.values) + tolerance(input))
            << input.name;
      }
      if (contract.kind == Contract::Kind::contraction && !stochastic) {
        EXPECT_GT(contract.delta, 0);
        EXPECT_LE(contract.delta, 1);
        EXPECT_LE(square_distance(decoded, input.values),
                  (1 - contract.delta) * square_norm(input.values) + tolerance(input))
            << input.name;
      }
    }
  });
}

TEST(Laws, ZerosAreSentAsZeros) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    for (const Input& input : all_inputs()) {
      if (square_norm(input.values) > 0 || !codec->contract(input.layout).keeps_zeros) continue;
      const auto decoded = decode(*codec, input, encode(*codec, input));
      EXPECT_EQ(square_norm(decoded), 0) << input.name;
    }
  });
}

TEST(Laws, DecodingAddsTimesScale) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 2)};
    const auto message = encode(*codec, input);
    const auto once = decode(*codec, input, message);
    std::vector<float> out = gaussian(input.layout, 3);
    const std::vector<float> before = out;
    add_part(*codec, input.layout, {0, input.layout.size()}, message, -0.5F, out);
    const double most = transforms(expression) ? 1e-5 : 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      // A value may be a sum of several terms, and each is added by itself.
      const float expected = before[i] + -0.5F * once[i];
      EXPECT_NEAR(out[i], expected, most) << i;
    }
  });
}

TEST(Laws, BytesDependOnTheKeyAlone) {
  for_all([](const std::string& expression) {
    if (is_warm(expression)) return;  // its bytes also depend on earlier steps: transform_test.cc
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 4)};
    const Key key{.seed = 5, .rank = 1, .generation = 0, .step = 6};
    const auto codec = fresh(expression);
    const auto message = encode(*codec, input, key);
    EXPECT_EQ(encode(*codec, input, key), message);  // the second time with used buffers
    EXPECT_EQ(encode(*fresh(expression), input, key), message);
  });
}

// tests/kernels checks each kernel on every target; this checks the bytes and floats of codecs.
TEST(Laws, EveryTargetMakesTheSameBytesAndFloats) {
  const Layout long_layout{{{"w", 0, {70, 101}}, {"b", 7070, {2001}}}, 9071};
  const std::vector<Input> inputs{{"gaussian", mixed_layout(), gaussian(mixed_layout(), 9)},
                                  {"long", long_layout, gaussian(long_layout, 10)}};
  for (const std::string& expression : listed_codecs()) {
    SCOPED_TRACE(expression);
    for (const Input& input : inputs) {
      const Key key{.seed = 7, .step = 8};
      const auto message = encode(*fresh(expression), input, key);
      const auto decoded = decode(*fresh(expression), input, message);
      kernels::on_every_target([&] {
        EXPECT_EQ(encode(*fresh(expression), input, key), message) << input.name;
        EXPECT_EQ(decode(*fresh(expression), input, message), decoded) << input.name;
      });
    }
  }
}

TEST(Laws, WhatGoesAsItIsLeavesNothingBehind) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    if (codec->traits().text.find("f32") == std::string::npos || transforms(expression)) return;
    if (codec->contract(mixed_layout()).kind == Contract::Kind::unbiased) return;  // what goes is scaled
    for (const Input& input : all_inputs()) {
      const auto decoded = decode(*codec, input, encode(*codec, input));
      for (std::size_t i = 0; i < decoded.size(); ++i) {
        const float residual = input.values[i] - decoded[i];
        EXPECT_TRUE(residual == 0 || decoded[i] == 0) << input.name << " " << i;
      }
    }
  });
}

float largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// The sent values and the rest that a memory keeps add up to the input, but for rounding of sums.
TEST(Laws, WhatIsSentAndWhatIsLeftMakeTheWhole) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression), other = fresh(expression);
    const bool sums = transforms(expression);
    for (const Input& input : all_inputs()) {
      if (input.name == "largest") continue;
      const auto message = encode(*codec, input);
      const auto sent = decode(*codec, input, message);
      std::vector<float> left = input.values;
      add_part(*other, input.layout, {0, left.size()}, message, -1, left);
      // Rows of a transform are added one by one, so errors scale with the largest value.
      const float all = sums ? largest(sent) + largest(input.values) : 0;
      for (std::size_t i = 0; i < left.size(); ++i) {
        const float most = sums ? 1e-5F * all : 1e-6F * (std::abs(sent[i]) + std::abs(input.values[i]));
        EXPECT_LE(std::abs(sent[i] + left[i] - input.values[i]), most) << input.name << " " << i;
      }
      expect_clean_padding(input, left);
    }
  });
}

TEST(Laws, ValuesThatAreNotFiniteNameTheirSegment) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      for (const auto& [element, name] : {std::pair{0, "first"}, {50, "third"}, {80, "fourth"}}) {
        Input input{"bad", borrowed_layout(), gaussian(borrowed_layout(), 10)};
        input.values[static_cast<std::size_t>(element)] = bad;
        try {
          encode(*codec, input, {.rank = 2, .step = 41});
          FAIL() << bad << " was accepted in " << name;
        } catch (const NumericError& error) {
          EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
          EXPECT_NE(std::string(error.what()).find("step 41"), std::string::npos) << error.what();
        }
        input.values[static_cast<std::size_t>(element)] = 1;
        EXPECT_NO_THROW(encode(*codec, input));  // the codec still works
      }
    }
  });
}

}  // namespace
}  // namespace sotto::testing
