// Linear forms of codecs, which are summed over ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/laws.h"

namespace sotto::testing {
namespace {

TEST(Laws, LinearFormOfOrdinaryValuesKeepsTheContract) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 11)};
    EXPECT_EQ(codec->traits().linear_type.has_value(), codec->contract(input.layout).linear);
    if (!codec->traits().linear_type) {
      EXPECT_EQ(codec->linear_count(input.layout), 0U);
      return;
    }
    EXPECT_GT(codec->linear_count(input.layout), 0U);
    std::vector<float> values = input.values;
    std::vector<std::byte> linear(codec->linear_count(input.layout) * size_of(*codec->traits().linear_type));
    const Key key{.seed = 19, .rank = 1, .step = 3};
    codec->to_linear({values, &input.layout, 2}, 0.25F, key, linear);
    std::vector<float> out(values.size(), 5.0F);
    Bucket bucket{out, &input.layout, 2};
    fresh(expression)->from_linear(linear, 4.0F, {.seed = 19, .rank = 2, .step = 3}, bucket);
    expect_clean_padding(input, out);
    const Contract contract = codec->contract(input.layout);
    if (!is_stochastic(expression) && contract.kind != Contract::Kind::none) {
      const double kept = contract.kind == Contract::Kind::rounding ? 1e-10 : 1 - contract.delta;
      EXPECT_LE(square_distance(out, values), kept * square_norm(values));
    }
    // A message holds the same values; f16 has a unit besides its 16 bits.
    EXPECT_LE(square_distance(out, decode(*codec, input, encode(*codec, input, key, 2))),
              0x1p-14 * square_norm(values));

    values[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(codec->to_linear({values, &input.layout, 0}, 1, {}, linear), NumericError);
  });
}

TEST(Laws, SumsOfLinearFormsAreSumsOfMessages) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    if (codec->traits().linear_type != DType::f32 || !codec->traits().additive) return;
    const Layout layout = borrowed_layout();
    std::vector<float> sum(codec->linear_count(layout)), linear(sum.size());
    std::vector<float> wanted(layout.size()), out(layout.size());
    for (const std::uint16_t rank : {0, 1, 2}) {
      Input input{"of a rank", layout, gaussian(layout, 30 + rank)};
      const Key key{.seed = 20, .rank = rank, .step = 9};
      codec->to_linear({input.values, &layout, 1}, 1, key, std::as_writable_bytes(std::span(linear)));
      std::ranges::transform(sum, linear, sum.begin(), std::plus<>());
      add_part(*fresh(expression), layout, {0, layout.size()}, encode(*codec, input, key, 1), 1, wanted);
    }
    Bucket bucket{out, &layout, 1};
    codec->from_linear(std::as_bytes(std::span(sum)), 1, {.seed = 20, .step = 9}, bucket);
    EXPECT_LE(square_distance(out, wanted), 1e-10 * square_norm(wanted));
  });
}

TEST(F16, RefusesToSumWhatDoesNotFit) {
  const auto codec = make_codec(read_stages("f16"));
  const Layout layout({{"head", 0, {2}}, {"tail", 2, {2}}}, 4);
  std::vector<float> values{1, 2, 70000, 3};
  std::vector<std::byte> out(8);
  try {
    codec->to_linear({values, &layout, 0}, 1, {}, out);
    FAIL() << "70000 is no half";
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("tail does not fit f16"), std::string::npos) << error.what();
  }
  // Half of it would fit, but not the sum of two such halves.
  EXPECT_THROW(codec->to_linear({values, &layout, 0}, 0.5F, {}, out), NumericError);
  values[2] = 65504;
  EXPECT_NO_THROW(codec->to_linear({values, &layout, 0}, 0.5F, {}, out));
}

TEST(F16, TheSummedFormHasNoUnitForSmallValues) {
  const auto codec = make_codec(read_stages("f16"));
  const Layout layout({{"w", 0, {4}}}, 4);
  const Input input{"small", layout, {1e-9F, -2e-8F, 1e-7F, 0.5F}};
  const auto exchanged =
      decode(*codec, {"small", layout, {1e-9F, 0, 0, 0}}, encode(*codec, {"small", layout, {1e-9F, 0, 0, 0}}));
  EXPECT_NEAR(exchanged[0], 1e-9F, 1e-12F);
  std::vector<float> values = input.values;
  std::vector<std::byte> linear(8);
  codec->to_linear({values, &layout, 0}, 1, {}, linear);
  Bucket bucket{values, &layout, 0};
  codec->from_linear(linear, 1, {}, bucket);
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0x1p-23F, 0.5F}));
}

}  // namespace
}  // namespace sotto::testing
