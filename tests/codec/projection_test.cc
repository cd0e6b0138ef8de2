// projection recovers sparse vectors and their sums; the error is bounded where vectors are not sparse.
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

constexpr std::int64_t dimension = 50000;  // twelve chunks of 4096, and a shorter one

Input flat(std::vector<float> values) { return {"flat", {{{"w", 0, {dimension}}}, values.size()}, std::move(values)}; }

// About a share `share` of the elements is normal and at least 1 in magnitude; the others are noise.
Input sparse(double share, float noise, std::uint64_t seed) {
  Input input = flat(std::vector<float>(dimension));
  Philox random(seed, Purpose::test);
  for (float& x : input.values) {
    const auto value = static_cast<float>(random.normal());
    x = random.uniform() < share ? value + std::copysign(1.0F, value) : noise * static_cast<float>(random.normal());
  }
  return input;
}

std::vector<float> linear_form(Codec& codec, const Input& input) {
  std::vector<float> form(codec.linear_count(input.layout));
  std::vector<float> values = input.values;
  codec.to_linear({values, &input.layout, 0}, 1, {}, std::as_writable_bytes(std::span(form)));
  return form;
}

std::vector<float> decoded_by(const std::string& sentence, const Input& input) {
  return decode(*make_codec(read_stages(sentence)), input, encode(*make_codec(read_stages(sentence)), input));
}

TEST(Projection, RecoversWhatIsSparse) {
  for (const char* sentence :
       {"projection(iterations=80)", "projection(1024, 100, iterations=80, seed=9)", "projection(30%, 3%, 1024, 80)"}) {
    const Input input = sparse(0.01, 0, 80);
    EXPECT_LE(square_distance(decoded_by(sentence, input), input.values), 1e-8 * square_norm(input.values)) << sentence;
  }
}

TEST(Projection, RecoversASumFromTheSumOfProjections) {
  const auto codec = make_codec(read_stages("projection(iterations=80)"));
  std::vector<float> total(dimension), sum, out(dimension);
  const Layout layout = sparse(0, 0, 0).layout;
  sum.resize(codec->linear_count(layout));
  for (const std::uint64_t rank : {81, 82, 83, 84}) {
    Input input = sparse(0.0025, 0, rank);
    const std::vector<float> form = linear_form(*codec, input);
    std::ranges::transform(sum, form, sum.begin(), std::plus<>());
    std::ranges::transform(total, input.values, total.begin(), std::plus<>());
  }
  Bucket bucket{out, &layout, 0};
  codec->from_linear(std::as_bytes(std::span(sum)), 1, {}, bucket);
  EXPECT_LE(square_distance(out, total), 1e-8 * square_norm(total));
  EXPECT_FALSE(codec->traits().additive);
  EXPECT_LT(sum.size(), dimension / 4);
}

// The error is about as large as the noise that was not sent, whose energy is `dimension` times its variance.
TEST(Projection, IsOffByTheOrderOfTheNoise) {
  const Input input = sparse(0.01, 0.02F, 85);
  const double noise = dimension * 0.02 * 0.02;
  const double off = square_distance(decoded_by("projection", input), input.values);
  EXPECT_GE(off, 0.5 * noise);
  EXPECT_LE(off, 4 * noise);
}

TEST(Projection, LeavesNoMoreThanWasMeasured) {
  for (const char* sentence : {"projection", "projection(9%, 2%, 512, iterations=50)"}) {
    const auto codec = make_codec(read_stages(sentence));
    Input input = flat(gaussian(flat(std::vector<float>(dimension)).layout, 86));
    const double measured = square_norm(linear_form(*codec, input));
    const auto found = decoded_by(sentence, input);
    std::ranges::transform(input.values, found, input.values.begin(), std::minus<>());
    EXPECT_LT(square_norm(linear_form(*codec, input)), measured) << sentence;
  }
}

// Chunks follow each other, and each is recovered independently of the others.
TEST(Projection, OfAPartIsThatOfTheWhole) {
  const Input input = sparse(0.01, 0.1F, 87);
  const auto codec = make_codec(read_stages("projection(chunk=1024)"));
  const auto whole = decoded_by("projection(chunk=1024)", input);
  std::vector<float> parts(dimension);
  for (const Range part : {Range{0, 3 * 1024}, Range{3 * 1024, dimension}}) {
    add_part(*codec, input.layout, part, encode_part(*codec, input, part), 1, parts);
  }
  EXPECT_EQ(parts, whole);
}

TEST(Projection, RefusesWhatMakesNoSense) {
  for (const char* sentence :
       {"projection(chunk=1000)", "projection(rows=0)", "projection(rows=many)", "projection(20%, 6%)",
        "projection(100, 26)", "projection(keep=0.5)", "projection(iterations=0)", "projection(rows=101%)"}) {
    EXPECT_THROW(make_codec(read_stages(sentence)), ConfigError) << sentence;
  }
}

}  // namespace
}  // namespace sotto::testing
