#include "sotto/codec/contract.h"
#include "sotto/codec/stages.h"
#include "tests/support/opened.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

using Kind = Contract::Kind;

// A segment of two dimensions, so that no selection takes it for a bias.
Layout one_segment(std::int64_t n) { return {{{"w", 0, {1, n}}}, static_cast<std::size_t>(n)}; }

Contract contract_of(const char* expression, std::int64_t n = 1000) {
  return make_codec(read_stages(expression))->contract(one_segment(n));
}

Contract unbiased(double omega) { return {.kind = Kind::unbiased, .omega = omega, .delta = 0}; }
Contract contraction(double delta) { return {.kind = Kind::contraction, .delta = delta}; }

TEST(Compose, ExactChangesNothing) {
  EXPECT_EQ(compose({}, unbiased(2)).omega, 2);
  EXPECT_EQ(compose(contraction(0.5), {}).delta, 0.5);
  EXPECT_EQ(compose({}, {}).kind, Kind::exact);
}

TEST(Compose, UnbiasedTwice) {
  const Contract both = compose(unbiased(1), unbiased(0.5));
  EXPECT_EQ(both.kind, Kind::unbiased);
  EXPECT_EQ(both.omega, 2);
}

TEST(Compose, ContractionBeforeLittleVarianceStaysOne) {
  const Contract both = compose(contraction(0.1), unbiased(0.25));
  EXPECT_EQ(both.kind, Kind::contraction);
  EXPECT_DOUBLE_EQ(both.delta, 0.075);
  EXPECT_EQ(compose(contraction(0.1), unbiased(1)).kind, Kind::none);
  EXPECT_DOUBLE_EQ(compose(contraction(0.5), contraction(0.5)).delta, 0.25);
}

TEST(Compose, OtherwiseThereIsNoBound) {
  EXPECT_EQ(compose(unbiased(1), contraction(0.5)).kind, Kind::none);
  EXPECT_EQ(compose({.kind = Kind::none}, {}).kind, Kind::none);
  EXPECT_EQ(compose({.kind = Kind::none}, unbiased(0.1)).kind, Kind::none);
}

TEST(Contracts, OfSelections) {
  EXPECT_DOUBLE_EQ(contract_of("topk(0.01)").delta, 0.01);
  EXPECT_DOUBLE_EQ(contract_of("topk(0.01)", 150).delta, 2.0 / 150);
  EXPECT_EQ(contract_of("topk(0.01)").grain, Contract::Grain::element);
  EXPECT_EQ(contract_of("topk(0.01)").input, Contract::Input::delta);
  EXPECT_EQ(contract_of("threshold(0.1)").kind, Kind::none);
  EXPECT_EQ(contract_of("threshold(0.1)").input, Contract::Input::gradient);
  EXPECT_EQ(contract_of("threshold").delta, 1);
  EXPECT_DOUBLE_EQ(contract_of("threshold(relative=0.1)").delta, 0.001);
  EXPECT_DOUBLE_EQ(contract_of("threshold(keep=1%)").delta, 0.001);
  EXPECT_DOUBLE_EQ(contract_of("threshold(drop=99%)").delta, 0.01);
  EXPECT_DOUBLE_EQ(contract_of("threshold(drop=29%)", 100).delta, 0.71);
  EXPECT_EQ(contract_of("threshold(drop=1)").kind, Kind::none);
  EXPECT_DOUBLE_EQ(contract_of("topk(0.01) | sign").delta, 0.01 / 10);
}

TEST(Contracts, OfWhatIsDenseAreThoseOfTheOthers) {
  const Layout layout({{"w", 0, {40, 5}}, {"bias", 200, {30}}}, 230);
  const auto of = [&](const char* expression) { return make_codec(read_stages(expression))->contract(layout); };
  EXPECT_DOUBLE_EQ(of("topk(1%, dense=29)").delta, 1.0 / 100);
  EXPECT_DOUBLE_EQ(of("topk(1%, scope=bucket, dense=29)").delta, 3.0 / 230);
  EXPECT_DOUBLE_EQ(of("topk(1%, scope=bucket)").delta, 2.0 / 200);
  EXPECT_DOUBLE_EQ(of("atomo(2, dense=30)").omega, 99);
  EXPECT_DOUBLE_EQ(of("atomo(2, scope=bucket, dense=0)").omega, 114);
  EXPECT_DOUBLE_EQ(make_codec(read_stages("topk(1%)"))->contract({{{"bias", 0, {30}}}, 30}).delta, 1);
}

TEST(Contracts, OfQuantisers) {
  EXPECT_EQ(contract_of("f32").kind, Kind::exact);
  EXPECT_EQ(contract_of("f32").input, Contract::Input::model);
  EXPECT_EQ(contract_of("bf16").input, Contract::Input::model);
  EXPECT_EQ(contract_of("f16").input, Contract::Input::model);
  EXPECT_TRUE(contract_of("f16").linear);
  EXPECT_FALSE(contract_of("f16 | zstd").linear);
  EXPECT_FALSE(contract_of("topk(0.1) | f16").linear);
  // A bucket has 512 values and 15 levels: omega is the smaller one of 512 / (4 * 225) and sqrt(512) / 15.
  EXPECT_DOUBLE_EQ(contract_of("qsgd").omega, 512.0 / 900);
  EXPECT_DOUBLE_EQ(contract_of("qsgd(bits=1)").omega, std::sqrt(512.0));
  EXPECT_DOUBLE_EQ(contract_of("qsgd(bits=1)", 16).omega, 4);  // the segment is shorter than the bucket
  EXPECT_DOUBLE_EQ(contract_of("terngrad(clip=0)").omega, std::sqrt(1000.0));
  EXPECT_DOUBLE_EQ(contract_of("terngrad(clip=0, bits=2)").omega, std::sqrt(1000.0) / 3);
  EXPECT_DOUBLE_EQ(contract_of("terngrad(clip=0, bits=4)").omega, 1000.0 / 900);
  EXPECT_EQ(contract_of("qsgd").block, 512U);
  EXPECT_EQ(contract_of("sign").delta, 0.001);
  EXPECT_EQ(contract_of("sign(block=8)").delta, 0.125);
  EXPECT_DOUBLE_EQ(contract_of("int8").delta, 1 - 256.0 / 64516);
  EXPECT_EQ(contract_of("int8(stochastic=true)").kind, Kind::unbiased);
  EXPECT_DOUBLE_EQ(contract_of("uint8").delta, 1 - 256.0 / 130050);
  EXPECT_DOUBLE_EQ(contract_of("uint8(stochastic=true)").omega, 256.0 / 130050);
  EXPECT_DOUBLE_EQ(contract_of("uint8(block=1)").delta, 1);
}

TEST(Contracts, QsgdReachesItsBound) {
  // One value is large; the others lie half way between two levels, so each of them is a fair coin.
  const auto codec = make_codec(read_stages("qsgd(bits=2, bucket=512, norm=max)"));
  const Layout layout = one_segment(512);
  std::vector<float> values(512, 0.5F);
  values[0] = 3;
  std::vector<Message> messages(1);
  std::vector<float> out(512);
  Bucket bucket{out, &layout, 0};
  codec->encode({values, &layout, 0}, {}, {}, std::vector<Range>{{0, 512}}, messages);
  test::opened(*codec, messages[0].view(), layout, {0, 512})->add_to(bucket, 1);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(out[i] - values[i], 2);
    norm += std::pow(values[i], 2);
  }
  EXPECT_LE(error, codec->contract(layout).omega * norm);
  EXPECT_GE(error, 0.06 * codec->contract(layout).omega * norm);
}

TEST(Contracts, TernGradKeepsItsBoundWhereItCuts) {
  const Layout layout = one_segment(512);
  for (const char* expression : {"terngrad", "terngrad(0.5)", "terngrad(8)", "terngrad(bits=2)",
                                 "terngrad(0.5, bits=3)", "terngrad(8, bits=2)", "terngrad(0.5, bits=4)"}) {
    const auto codec = make_codec(read_stages(expression));
    const double omega = codec->contract(layout).omega;
    double most = 0;
    for (const std::size_t large : {1, 4, 16, 64, 512}) {  // few values hold most of the norm, or all are equal
      std::vector<float> values(512, 0.1F);
      std::fill_n(values.begin(), large, 1.0F);
      double norm = 0, error = 0;
      for (const float value : values) norm += value * value;
      constexpr int repeats = 200;
      for (std::uint32_t step = 0; step < repeats; ++step) {
        std::vector<Message> messages(1);
        std::vector<float> out(512);
        Bucket bucket{out, &layout, 0};
        codec->encode({values, &layout, 0}, {.step = step}, {}, std::vector<Range>{{0, 512}}, messages);
        test::opened(*codec, messages[0].view(), layout, {0, 512})->add_to(bucket, 1);
        for (std::size_t i = 0; i < values.size(); ++i) error += std::pow(out[i] - values[i], 2) / repeats;
      }
      EXPECT_LE(error, omega * norm) << expression << " with " << large;
      most = std::max(most, error / norm);
    }
    EXPECT_GE(most, omega / 6) << expression;
  }
}

TEST(Contracts, ArePutIntoWords) {
  EXPECT_EQ(describe(contract_of("f32")), "exact; for gradients, differences and models; parts cut anywhere; linear");
  EXPECT_NE(describe(contract_of("qsgd")).find("unbiased"), std::string::npos);
  EXPECT_NE(describe(contract_of("qsgd")).find("blocks of 512"), std::string::npos);
  EXPECT_NE(describe(contract_of("threshold(1)")).find("memory before it"), std::string::npos);
  EXPECT_NE(describe(contract_of("threshold")).find("leaves nothing out"), std::string::npos);
  EXPECT_NE(describe(contract_of("terngrad")).find("biased, E|C(x)-x|^2 <= 1.781 |x|^2"), std::string::npos);
  EXPECT_NE(describe(contract_of("terngrad(clip=0, shared=true)")).find("unbiased, without a bound"),
            std::string::npos);
  EXPECT_NE(describe(contract_of("svd | terngrad")).find("memory before it"), std::string::npos);
}

TEST(Describe, AnErrorThatIsSmallIsNotZero) {
  EXPECT_NE(describe(contraction(1 - 0x1p-16)).find("E|C(x)-x|^2 <= 1.526e-05 |x|^2"), std::string::npos);
  EXPECT_NE(describe(contraction(0.25)).find("E|C(x)-x|^2 <= (1 - 0.25) |x|^2"), std::string::npos);
}

}  // namespace
}  // namespace sotto
