// What selections have in common, and how much thresholds select.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/fixture.h"
#include "tests/support/message_of.h"

namespace sotto::testing {
namespace {

using test::message_of;

std::vector<float> sent(const std::string& expression, const Layout& layout, const std::vector<float>& values) {
  const Input input{"input", layout, values};
  const auto codec = make_codec(read_stages(expression));
  return decode(*codec, input, encode(*codec, input));
}

// Selects in each chunk by itself, also in the last chunk of a segment, which is shorter.
TEST(TopK, TakesTheLargestOfEachChunk) {
  Layout layout;
  layout.append("w", {20});
  std::vector<float> values = gaussian(layout, 3);
  for (std::size_t i = 0; i < 8; ++i) values[i] *= 100;  // chunks must not displace each other's values
  const auto kept = [&](std::size_t begin, std::size_t end) {
    Layout chunk;
    chunk.append("w", {static_cast<std::int64_t>(end - begin)});
    std::vector<float> part(values.begin() + static_cast<std::ptrdiff_t>(begin),
                            values.begin() + static_cast<std::ptrdiff_t>(end));
    part.resize(chunk.size());
    return sent("dct(8) | topk(count=2, dense=0)", chunk, part);
  };
  const auto found = sent("dct(8) | topk(count=2, scope=chunk, dense=0)", layout, values);
  for (const auto& [begin, end] : {std::pair{0U, 8U}, {8U, 16U}, {16U, 20U}}) {
    const auto wanted = kept(begin, end);
    for (std::size_t i = begin; i < end; ++i) EXPECT_EQ(found[i], wanted[i - begin]) << i;
  }
  for (const char* none : {"topk(scope=chunk)", "svd | topk(scope=chunk)", "svd | topk(0.5) | topk(scope=chunk)"}) {
    const auto text = message_of([&] { make_codec(read_stages(none)); });
    EXPECT_NE(text.find("put a transform that makes some before it"), std::string::npos) << text;
  }
}

// Three segments of one dimension among others. `dense=9` sends two of them whole.
Layout with_biases() {
  Layout layout;
  layout.append("a.bias", {9});
  layout.append("a", {6, 7});
  layout.append("b.bias", {10});
  layout.append("b", {3, 2, 5});
  layout.append("scale", {});
  return layout;
}

const std::vector<std::string> selections{"topk(0.1, dense=9)",
                                          "topk(0.2, scope=bucket, dense=9)",
                                          "sampled_topk(0.2, dense=9)",
                                          "sampled_topk(0.2, scope=bucket, dense=9)",
                                          "threshold(1.5, dense=9)",
                                          "threshold(relative=0.5, dense=9)",
                                          "threshold(relative=0.5, scope=bucket, dense=9)",
                                          "threshold(keep=0.2, scope=bucket, dense=9)",
                                          "threshold(drop=0.8, dense=9)",
                                          "threshold(drop=0.8, scope=bucket, dense=9)",
                                          "threshold(drop=1, dense=9)",
                                          "block(2, 0.3, dense=9)",
                                          "block(3, 0.4, scope=bucket, dense=9)"};

// Then the values are quantised where they are, with the random numbers that they have without a selection.
TEST(Threshold, ThatLeavesNothingOutIsItsQuantiserAlone) {
  const Layout layout({{"a", 0, {250}}, {"b", 256, {5, 6}}, {"c", 288, {1}}}, 304);  // with padding between
  Input input{"gaussian", layout, gaussian(layout, 3)};
  for (const char* quantise :
       {"qsgd(bits=4)", "f32", "int8", "terngrad", "quantile", "quantile | minmax_sketch", "clusters"}) {
    const auto alone = make_codec(read_stages(quantise));
    const auto all = make_codec(read_stages("threshold(0, dense=0) | " + std::string(quantise)));
    for (const bool leaves_one_out : {false, true, false}) {  // and what a codec keeps from message to message
      Input some = input;
      if (leaves_one_out) some.values[3] = 0;
      const auto message = encode(*all, some);
      const auto decoded = decode(*all, some, message);
      if (leaves_one_out) {
        EXPECT_EQ(decoded[3], 0) << quantise;
      } else {
        EXPECT_EQ(decoded, decode(*alone, some, encode(*alone, some))) << quantise;
      }
    }
  }
}

TEST(Dense, SegmentsGoWholeAndTheOthersAsIfAlone) {
  const Layout layout = with_biases();
  std::vector<float> values = gaussian(layout, 31);
  values[2] = 0;
  std::vector<float> others = values;
  std::vector<Segment> segments;
  for (const Segment& segment : layout.segments()) {
    const bool dense = segment.name == "a.bias" || segment.name == "scale";
    if (!dense) segments.push_back(segment);
    for (std::size_t i = segment.offset; dense && i < segment.range().end; ++i) others[i] = 0;
  }
  const Layout alone(segments, layout.size());
  for (const std::string& expression : selections) {
    std::vector<float> expected = sent(expression, alone, others);
    for (std::size_t i = 0; i < 9; ++i) expected[i] = values[i];
    expected[layout.segments()[4].offset] = values[layout.segments()[4].offset];
    EXPECT_EQ(sent(expression, layout, values), expected) << expression;
  }
}

TEST(Dense, IsTheSegmentNotThePieceOfAPart) {
  const Layout layout({{"w", 0, {40}}}, 40);
  const Input input{"w", layout, gaussian(layout, 32)};
  for (const auto& [expression, whole] :
       {std::pair{"topk(0.1, dense=39)", false}, {"topk(0.1, dense=40)", true}, {"threshold(9, dense=40)", true}}) {
    const auto codec = make_codec(read_stages(expression));
    std::vector<float> out(40);
    add_part(*codec, layout, {5, 15}, encode_part(*codec, input, {5, 15}), 1, out);
    EXPECT_EQ(std::ranges::count_if(out, [](float x) { return x != 0; }), whole ? 10 : 1) << expression;
  }
}

TEST(Dense, OfTheDefaultAreBiasesAndNoMore) {
  for (const std::int64_t n : {1024, 1025}) {
    const Layout layout({{"bias", 0, {n}}}, static_cast<std::size_t>(n));
    const std::vector<float> values = gaussian(layout, 33);
    for (const char* expression : {"topk(0.1)", "sampled_topk(0.1)", "threshold(relative=0.5)", "randomk(0.1)",
                                   "randomk(0.1, shared=false)", "block(4, 0.1)", "block(4, 0.1, shared)"}) {
      EXPECT_EQ(sent(expression, layout, values) == values, n == 1024) << expression << " " << n;
    }
  }
}

TEST(Dense, WithinRowsOfSvdIsTheTensor) {
  const Layout layout({{"bias", 0, {12}}, {"w", 16, {6, 5}}}, 46);
  const std::vector<float> values = gaussian(layout, 34);
  const auto bias = sent("svd | topk(1, dense=0) | topk(0.1)", layout, values);
  const auto none = sent("svd | topk(1, dense=0) | topk(0.1, dense=0)", layout, values);
  double lost = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(bias[i], values[i], 1e-5);
    lost += std::abs(none[i] - values[i]);
  }
  EXPECT_GT(lost, 1);
  EXPECT_TRUE(std::equal(bias.begin() + 16, bias.end(), none.begin() + 16));
}

// The share that is sent is near the share aimed at, whether or not an exponential tail is a fair guess.
TEST(AdaptiveThreshold, SendsAboutTheShareThatIsAimedAt) {
  const std::size_t n = 300'000;
  const Layout layout({{"w", 0, {1, static_cast<std::int64_t>(n)}}}, n);
  const std::vector<float> normal = gaussian(layout, 35);
  const auto made = [&](auto value) {
    std::vector<float> values(n);
    std::ranges::transform(normal, values.begin(), value);
    return values;
  };
  std::vector<float> student(n);
  fill_sample("test", "student", 36, student);
  const std::vector<std::pair<std::vector<float>, double>> inputs{
      {normal, 1.15},
      {student, 1.3},
      {made([](float x) { return x * x * x; }), 1.4},
      {made([](float x) { return std::copysign(x * x, x); }), 1.3},
      {made([](float x) { return std::erf(x / std::sqrt(2.0F)); }), 1.5},  // uniform
  };
  for (const auto& [values, slack] : inputs) {
    for (const double ratio : {0.1, 0.01, 0.001}) {
      const auto out = sent("threshold(keep=" + std::to_string(ratio) + ")", layout, values);
      const auto count = static_cast<double>(std::ranges::count_if(out, [](float x) { return x != 0; }));
      EXPECT_GT(count, ratio * static_cast<double>(n) / slack) << ratio;
      EXPECT_LT(count, ratio * static_cast<double>(n) * slack) << ratio;
    }
  }
}

TEST(AdaptiveThreshold, AlwaysSendsTheLargest) {
  const Layout layout({{"w", 0, {1, 6}}}, 6);
  EXPECT_EQ(sent("threshold(keep=0.1)", layout, {1, -1, 1, 1, -1, 1}), (std::vector<float>{1, -1, 1, 1, -1, 1}));
  EXPECT_EQ(sent("threshold(keep=0.1)", layout, {0, 0, 0, -1e-45F, 0, 0})[3], -1e-45F);
  EXPECT_EQ(sent("threshold(keep=0.2)", layout, {1, 2, 3, 4, 5, -1e30F})[5], -1e30F);
  EXPECT_EQ(sent("threshold(keep=1)", layout, {1, 2, 3, 0, 5, 6}), (std::vector<float>{1, 2, 3, 0, 5, 6}));
  EXPECT_EQ(sent("threshold(keep=0.2)", layout, std::vector<float>(6)), std::vector<float>(6));
}

TEST(DroppingThreshold, DropsTheShareThatIsSmallest) {
  const std::size_t n = 10'000;
  const Layout layout({{"a", 0, {1, 6000}}, {"b", 6000, {4, 1000}}}, n);
  std::vector<float> values = gaussian(layout, 37);
  for (std::size_t i = 0; i < n; i += 7) values[i] = i % 2 == 0 ? 0.75F : -0.75F;
  std::vector<float> magnitudes(n);
  std::ranges::transform(values, magnitudes.begin(), [](float x) { return std::abs(x); });
  std::ranges::sort(magnitudes);
  for (const double share : {0.0, 0.29, 0.5, 0.55, 0.9, 0.999, 1.0}) {
    const auto dropped = static_cast<std::size_t>(std::lround(share * n));
    const float least = dropped < n ? magnitudes[dropped] : std::numeric_limits<float>::infinity();
    std::vector<float> expected = values;
    for (float& x : expected) x = std::abs(x) >= least ? x : 0;
    EXPECT_EQ(sent("threshold(drop=" + std::to_string(share) + ", scope=bucket)", layout, values), expected);
  }
}

TEST(Dense, IsANumberOrAll) {
  const auto canonical = [](const char* expression) { return make_codec(read_stages(expression))->traits().text; };
  EXPECT_EQ(canonical("topk(0.1, dense=all)"), "topk(ratio=0.1, scope=segment, dense=all) | f32");
  for (const char* call : {"topk(dense={})", "sampled_topk(dense={})", "threshold(dense={})", "randomk(dense={})",
                           "block(dense={})", "atomo(1, dense={})"}) {
    for (const char* bad : {"-1", "4294967296", "1e3", "5%", "None", "07", ""}) {
      const std::string expression = fmt::format(fmt::runtime(call), bad);
      EXPECT_THROW(make_codec(read_stages(expression)), ConfigError) << expression;
    }
  }
}

TEST(SampledTopK, IsWithinItsBoundsAndTakesTheLargest) {
  const std::size_t n = 100'000;
  const Layout whole({{"w", 0, {10, 10'000}}}, n);
  const Layout cut({{"a", 0, {3, 10'000}}, {"b", 30'000, {7}}, {"c", 30'007, {69'993, 1}}}, n);
  const std::vector<float> normal = gaussian(whole, 38);
  std::vector<float> steep(n), few(n);
  for (std::size_t i = 0; i < n; ++i) {
    steep[i] = std::pow(normal[i], 9.0F);
    few[i] = i % 997 == 0 ? 50 + normal[i] : 1e-6F * normal[i];  // a tenth of k is far above the others
  }
  for (const auto& values : {normal, steep, few}) {
    for (const char* sample : {"0.001", "0.01", "1", "0.001, scope=bucket", "0.01, scope=bucket", "1, scope=bucket"}) {
      const bool pools = std::string(sample).ends_with("bucket");
      const auto out =
          sent(std::string("sampled_topk(0.01, dense=0, sample=") + sample + ")", pools ? cut : whole, values);
      float least = std::numeric_limits<float>::infinity(), left = 0;
      std::size_t count = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (out[i] != 0) ++count;
        if (out[i] != 0) least = std::min(least, std::abs(values[i]));
        if (out[i] == 0) left = std::max(left, std::abs(values[i]));
      }
      EXPECT_GE(least, left);
      EXPECT_LE(count, 1300U);
      EXPECT_GE(count, 100U);
      if (sample[0] == '1') {
        EXPECT_EQ(count, 1000U);
      }
    }
  }
}

}  // namespace
}  // namespace sotto::testing
