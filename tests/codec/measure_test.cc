#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "sotto/codec/measure.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

TEST(Measure, AgreesWithTheCodec) {
  const Layout layout({{"w", 0, {10000}}}, 10000);
  std::vector<float> input(10000);
  fill_sample("test", "gaussian", 1, input);
  const auto codec = make_codec(read_stages("sign"));
  const Measurement m = measure(*codec, layout, input, 3);
  EXPECT_EQ(m.elements, 10000U);
  EXPECT_EQ(m.bytes, 32U + 4 + 1250);
  EXPECT_NEAR(m.ratio, 40000.0 / 1286, 1e-9);
  EXPECT_GT(m.encode_gbps, 0);
  EXPECT_GT(m.decode_gbps, 0);
  EXPECT_GT(m.memcpy_gbps, 0);
  EXPECT_NEAR(m.relative_error, std::sqrt(1 - 2 / std::acos(-1.0)), 0.02);  // scaled signs of normal numbers
  EXPECT_EQ(measure(*make_codec(read_stages("f32")), layout, input, 1).relative_error, 0);
}

// A vector that is too long for a message is measured as it is sent: in several buckets.
TEST(Measure, CutsALongVector) {
  const Layout layout({{"a", 0, {50, 100}}, {"b", 5008, {3000}}}, 8016);
  std::vector<float> input(8016);
  fill_sample("test", "gaussian", 1, input);
  layout.clear_padding(input);
  const auto measured = [&](const char* expression, std::size_t most) {
    return measure(*make_codec(read_stages(expression)), layout, input, 3, most);
  };
  const Measurement whole = measured("f32", 8016), cut = measured("f32", 1000);
  EXPECT_EQ(whole.bytes, 32U + 4 * 8000);
  EXPECT_EQ(cut.bytes, 4 * 8000 + 32U * (5 + 4));  // ten rows a message, then 992 values
  EXPECT_EQ(cut.elements, 8000U) << "without the eight after each segment";
  EXPECT_NEAR(whole.ratio, 32000.0 / (32 + 32000), 1e-9);
  EXPECT_EQ(cut.relative_error, 0);
  EXPECT_NEAR(measured("topk(0.01, dense=0)", 1000).relative_error,
              measured("topk(0.01, dense=0)", 8016).relative_error, 0.01);
}

TEST(Measure, NeedsAVectorOfTheLayoutAndARepeat) {
  const Layout layout({{"w", 0, {100}}}, 100);
  const auto codec = make_codec(read_stages("f32"));
  EXPECT_THROW(measure(*codec, layout, std::vector<float>(99), 1), std::logic_error);
  EXPECT_THROW(measure(*codec, layout, std::vector<float>(100), 0), std::logic_error);
}

TEST(Sample, HasTheMomentsItSays) {
  std::vector<float> values(200001);
  fill_sample("test", "gaussian", 1, values);
  EXPECT_NEAR(kernels::sum_squares(values) / 200001, 1e-4, 2e-6);
  EXPECT_NEAR(kernels::sum_abs(values) / 200001, 0.01 * std::sqrt(2 / std::acos(-1.0)), 1e-4);
  fill_sample("test", "student", 1, values);
  EXPECT_NEAR(kernels::sum_abs(values) / 200001, 0.01 * 1.1027, 3e-4);  // 2 sqrt(3) / pi
  fill_sample("test", "sparse", 1, values);
  EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.end(), 0.0F)) / 200001, 0.95, 0.01);
}

TEST(Sample, DependsOnTheSeedAlone) {
  for (const SampleEntry& sample : sample_table()) {
    std::vector<float> a(1000), b(1000), c(1000);
    fill_sample("test", sample.name, 1, a);
    fill_sample("test", sample.name, 1, b);
    fill_sample("test", sample.name, 2, c);
    EXPECT_EQ(a, b);
    EXPECT_NE(a, c);
    EXPECT_TRUE(kernels::all_finite(a));
  }
  std::vector<float> out(1);
  EXPECT_THROW(fill_sample("sample", "gausian", 1, out), ConfigError);
}

}  // namespace
}  // namespace sotto
