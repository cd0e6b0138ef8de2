// count_sketch and count_min: which elements are recovered, how far estimates are off, and what sums of sketches mean.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

Input flat(std::string name, std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {std::move(name), {{{"w", 0, {n}}}, values.size()}, std::move(values)};
}

std::vector<float> decoded_by(const std::string& expression, const Input& input) {
  return decode(*make_codec(read_stages(expression)), input, encode(*make_codec(read_stages(expression)), input));
}

// Fifty elements of magnitude 5 to 10 among noise.
Input spikes(std::uint64_t seed) {
  Input input = flat("spikes", std::vector<float>(200000));
  Philox random(seed, Purpose::test);
  for (float& x : input.values) x = 0.01F * static_cast<float>(random.normal());
  for (int i = 0; i < 50; ++i) {
    input.values[random.below(200000)] =
        (random.below(2) == 0 ? 1.0F : -1.0F) * (5 + 5 * static_cast<float>(random.uniform()));
  }
  return input;
}

std::vector<float> only_large(std::vector<float> values) {
  for (float& x : values) x = std::abs(x) > 1 ? x : 0.0F;
  return values;
}

TEST(CountSketch, FindsTheLargest) {
  const Input input = spikes(60);
  const auto largest = only_large(input.values);
  const auto kept = static_cast<int>(std::ranges::count_if(largest, [](float x) { return x != 0; }));
  for (const char* form :
       {"count_sketch(5, 5%, {})", "count_sketch(7, 20000, {}) | f16", "count_sketch(9, 4000, {})"}) {
    const auto out = decoded_by(fmt::format(fmt::runtime(form), kept), input);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], largest[i], 0.2) << form << ", " << i;
  }
}

TEST(CountSketch, OfASumIsTheSumOfSketches) {
  const auto codec = make_codec(read_stages("count_sketch(5, 5%, 0.5%)"));
  std::vector<Input> inputs{spikes(61), spikes(62), spikes(63)};
  const std::size_t n = inputs[0].values.size();
  std::vector<float> sum(codec->linear_count(inputs[0].layout)), form(sum.size()), total(n), out(n);
  for (Input& input : inputs) {
    codec->to_linear({input.values, &input.layout, 0}, 1, {}, std::as_writable_bytes(std::span(form)));
    std::ranges::transform(sum, form, sum.begin(), std::plus<>());
    std::ranges::transform(total, input.values, total.begin(), std::plus<>());
  }
  Bucket bucket{out, &inputs[0].layout, 0};
  codec->from_linear(std::as_bytes(std::span(sum)), 1, {}, bucket);
  const auto of_total = decoded_by("count_sketch(5, 5%, 0.5%)", flat("total", total));
  // The smallest elements that are kept are noise, and may differ.
  EXPECT_LE(square_distance(only_large(out), only_large(of_total)), 1e-8 * square_norm(total));
  EXPECT_FALSE(codec->traits().additive);
}

// One row is unbiased. With w windows of m cells, two elements of different chunks meet with probability 1 / (w m), and
// two of one chunk, which share a window, with 1 / m. Therefore E|est - x|^2 is the sum over pairs of x_j^2 times that
// probability.
TEST(CountSketch, OneRowIsOffByAllThatItsElementMeets) {
  const Input input = flat("gaussian", gaussian({{{"w", 0, {100000}}}, 100000}, 64));
  for (const auto& [columns, windows, width] : {std::tuple{2000, 1.0, 2000.0}, {9000, 3.0, 3000.0}}) {
    double expected = 0;
    const double whole = square_norm(input.values);
    for (std::size_t begin = 0; begin < 100000; begin += 4096) {
      const auto chunk = std::span(input.values).subspan(begin, std::min<std::size_t>(4096, 100000 - begin));
      const double own = square_norm(chunk);
      const auto size = static_cast<double>(chunk.size());
      expected += size * (whole - own) / (windows * width) + (size - 1) * own / width;
    }
    constexpr int seeds = 10;
    std::vector<double> mean(100000);
    double variance = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const auto out = decoded_by(fmt::format("count_sketch(1, {}, 100%, {})", columns, seed), input);
      variance += square_distance(out, input.values) / seeds;
      for (std::size_t i = 0; i < out.size(); ++i) mean[i] += out[i] / static_cast<double>(seeds);
    }
    // Windows are hit unevenly, so the variance of one seed is known to some per cent, and the mean over seeds to one
    // per cent.
    EXPECT_NEAR(variance / expected, 1, 0.04) << columns;
    double error = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
    EXPECT_NEAR(error * seeds / variance, 1, 0.1) << columns;
  }
}

TEST(CountMin, IsNeverBelowWhatIsAboveZero) {
  Input input = flat("magnitudes", gaussian({{{"w", 0, {200000}}}, 200000}, 65));
  for (float& x : input.values) x = std::abs(x);
  const auto out = decoded_by("count_min(5, 6000, 100%)", input);
  double excess = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_GE(out[i], input.values[i] * (1 - 1e-5F)) << i;
    excess += out[i] - input.values[i];
  }
  EXPECT_GT(excess, 0);
  const Input sparse = spikes(66);
  const auto largest = only_large(sparse.values);
  const auto found = decoded_by("count_min(5, 10000, 50)", sparse);
  // A cell adds up the noise of twenty elements; an estimate takes the emptiest of five cells.
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (largest[i] == 0) continue;
    ASSERT_NEAR(found[i], largest[i], 0.4) << i;
  }
}

TEST(Sketch, OfFewElementsIsTheElements) {
  const Layout layout = mixed_layout();
  const Input input{"gaussian", layout, gaussian(layout, 67)};
  for (const char* expression : {"count_sketch(5, 30, 1)", "count_min(3, 20, 1)", "count_sketch(5, 20%, 1)"}) {
    EXPECT_EQ(decoded_by(expression, input), input.values) << expression;
  }
}

TEST(Sketch, RefusesWhatMakesNoSense) {
  for (const char* expression : {"count_sketch(4)", "count_sketch(columns=0)", "count_sketch(columns=0%)",
                                 "count_sketch(columns=101%)", "count_min(keep=2.5)", "count_min(keep=many)",
                                 "count_sketch(17)", "count_sketch(columns=1e30)", "count_sketch(keep=nan)"}) {
    EXPECT_THROW(make_codec(read_stages(expression)), ConfigError) << expression;
  }
}

}  // namespace
}  // namespace sotto::testing
