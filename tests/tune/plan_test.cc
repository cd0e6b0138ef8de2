#include "app/tune/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sotto/core/error.h"

namespace sotto {
namespace {

using Texts = std::vector<std::string>;

Texts values(const std::string& text) { return read_dimension("grid", text).values; }

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& text) {
  return error_of([&] { read_dimension("grid", text); });
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Space, ListsRespectParenthesesQuotesAndStages) {
  EXPECT_EQ(values("codec=topk(0.01),topk(0.001)"), (Texts{"topk(0.01)", "topk(0.001)"}));
  EXPECT_EQ(values("codec=none, ef | topk(0.01, dense=all) | int8 ,f16"),
            (Texts{"none", "ef | topk(0.01, dense=all) | int8", "f16"}));
  EXPECT_EQ(values("model=resnet(depth=50, width=(2, 3)),lenet"), (Texts{"resnet(depth=50, width=(2, 3))", "lenet"}));
  EXPECT_EQ(values(R"(group="*.bias,*norm*: weight-decay=0" , 'a"b', "")"),
            (Texts{"*.bias,*norm*: weight-decay=0", "a\"b", ""}));
  EXPECT_EQ(values(" lr = 0.1 "), Texts{"0.1"});
  EXPECT_EQ(read_dimension("grid", " lr = 0.1").name, "lr");
}

TEST(Space, RangesOfPowers) {
  EXPECT_EQ(values("lr=2^-7..2^-1"), (Texts{"0.0078125", "0.015625", "0.03125", "0.0625", "0.125", "0.25", "0.5"}));
  EXPECT_EQ(values("lr=10^-4..10^-1"), (Texts{"0.0001", "0.001", "0.01", "0.1"}));
  EXPECT_EQ(values("train-size=10^5..10^7"), (Texts{"100000", "1000000", "10000000"})) << "whole numbers";
  EXPECT_EQ(values("batch-size=2^3..2^5"), (Texts{"8", "16", "32"}));
  EXPECT_EQ(values("lr=0.5^3..0.5^1"), (Texts{"0.125", "0.25", "0.5"}));
  EXPECT_EQ(values("lr=2^0..2^0"), Texts{"1"});
  EXPECT_EQ(values("lr=2^-3,0.3,10^-1..10^0"), (Texts{"0.125", "0.3", "0.1", "1"}));
}

TEST(Space, RangesOfEqualRatios) {
  EXPECT_EQ(values("lr=0.001..0.1/5"), (Texts{"0.001", "0.00316228", "0.01", "0.0316228", "0.1"}));
  EXPECT_EQ(values("lr=1..4/3, 7"), (Texts{"1", "2", "4", "7"}));
}

TEST(Space, TextWithDotsIsNoRange) {
  EXPECT_EQ(values("data-dir=../a,../b/c..d"), (Texts{"../a", "../b/c..d"}));
  EXPECT_EQ(values("model=./x^2.so"), Texts{"./x^2.so"});
  EXPECT_EQ(values("lr='1..4/3'"), Texts{"1..4/3"});
}

TEST(Space, OpenRangesStandAlone) {
  const Dimension whole = read_dimension("grid", "seed=1..3");
  EXPECT_TRUE(whole.values.empty());
  EXPECT_EQ(whole.range->values(), (Texts{"1", "2", "3"}));
  EXPECT_EQ(read_dimension("grid", "lr=0.5..3").range->kind, ValueRange::Kind::any);
  expect_has(refusal("seed=1..3,5"), "grid seed=1..3,5: 1..3 must be the only value");
}

TEST(Space, RefusesWhatIsNoDimension) {
  expect_has(refusal("lr"), "grid lr: expected NAME=VALUES");
  expect_has(refusal("=3"), "expected NAME=VALUES");
  expect_has(refusal("lr="), "a value is empty");
  expect_has(refusal("lr=1,,2"), "a value is empty");
  expect_has(refusal("lr=1,"), "a value is empty");
  expect_has(refusal("lr=0.5,2^-1"), "the value `0.5` is there twice");
  expect_has(refusal("codec=topk(0.1"), "a `(` is never closed");
  expect_has(refusal("codec=topk0.1)"), "a `)` closes nothing");
  expect_has(refusal("codec='none"), "a ' is never closed");
  expect_has(refusal("codec='none' int8"), "expected `,` after a value in quotes");
  const Texts twice{"lr=1", "codec=none", "lr=2"};
  expect_has(error_of([&] { read_space("grid", twice); }), "grid lr=2: lr is given twice");
}

TEST(Space, RefusesRangesThatAreNone) {
  expect_has(refusal("lr=2^-1..2^-7"), "2^-1..2^-7: the first end is the larger one");
  expect_has(refusal("lr=4..1"), "the first end is the larger one");
  expect_has(refusal("lr=2^-7..3^1"), "powers of different numbers");
  expect_has(refusal("lr=1^1..1^3"), "all powers of 1 are 1");
  expect_has(refusal("lr=2^-3..1"), "one end is a power and the other is none");
  expect_has(refusal("lr=2^-9999..2^1"), "exponents must be in");
  expect_has(refusal("lr=10^-900..10^1"), "too near 0");
  expect_has(refusal("lr=0..1/5"), "equal ratios want ends above 0");
  expect_has(refusal("lr=1..4/1"), "must be in [2, 1000]");
  expect_has(refusal("lr=1..4/x"), "must be in [2, 1000]");
}

TEST(Grid, HasEveryCombination) {
  const auto space = read_space("grid", Texts{"lr=2^0..2^1", "seed=1..3"});
  EXPECT_EQ(grid_of("grid", space, 6),
            (std::vector<Point>{{"1", "1"}, {"1", "2"}, {"1", "3"}, {"2", "1"}, {"2", "2"}, {"2", "3"}}));
  expect_has(error_of([&] { grid_of("grid", space, 5); }), "grid: it has more than 5 trials");
  EXPECT_EQ(text_of(space, {"1", "3"}), "lr=1, seed=3");
}

TEST(Grid, RefusesWhatItCannotList) {
  const auto any = read_space("grid", Texts{"lr=0.01..1"});
  expect_has(error_of([&] { grid_of("grid", any, 100); }), "as lr=0.01..1/5, or draw some with random");
  const auto many = read_space("grid", Texts{"seed=0..1000000000000000", "lr=1,2"});
  expect_has(error_of([&] { grid_of("grid", many, 100); }), "more than 100 trials");
}

TEST(Draw, IsAFunctionOfSeedAndPlace) {
  const auto space = read_space("grid", Texts{"lr=0.001..0.5", "codec=none,int8,f16", "batch-size=8..64"});
  const auto few = draw_points("grid", space, 20, 7), many = draw_points("grid", space, 60, 7);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(few, draw_points("grid", space, 20, 8));
  EXPECT_EQ(std::set<Point>(many.begin(), many.end()).size(), 60);
  for (const Point& point : many) {
    const double lr = std::stod(point[0]), batch = std::stod(point[2]);
    EXPECT_TRUE(lr >= 0.001 && lr <= 0.5) << lr;
    EXPECT_TRUE(batch >= 8 && batch <= 64 && batch == std::floor(batch)) << batch;
    EXPECT_LE(point[0].size(), 9) << "four digits are enough";
  }
}

TEST(Draw, LogarithmsAreUniform) {
  const auto space = read_space("grid", Texts{"lr=0.0001..1.0", "seed=1..9999"});
  const auto points = draw_points("grid", space, 4000, 1);
  for (int decade = -4; decade < 0; ++decade) {
    const auto in_decade = std::ranges::count_if(
        points, [&](const Point& point) { return std::floor(std::log10(std::stod(point[0]))) == decade; });
    EXPECT_NEAR(static_cast<double>(in_decade), 1000, 120) << decade;  // over 4 standard deviations
  }
  const auto small = std::ranges::count_if(points, [](const Point& point) { return std::stod(point[1]) < 100; });
  EXPECT_NEAR(static_cast<double>(small), 2000, 130);
}

TEST(Draw, FindsAllPointsAndNoMore) {
  const auto space = read_space("grid", Texts{"lr=2^-2..2^0", "seed=1..4"});
  auto drawn = draw_points("grid", space, 12, 3);
  auto all = grid_of("grid", space, 12);
  std::ranges::sort(drawn);
  std::ranges::sort(all);
  EXPECT_EQ(drawn, all);
  expect_has(error_of([&] { draw_points("grid", space, 13, 3); }), "random 13: there are only 12 different trials");
}

TEST(Draw, RefusesRangesWithoutLogarithms) {
  const auto space = read_space("grid", Texts{"momentum=0..0.9"});
  expect_has(error_of([&] { draw_points("grid", space, 2, 1); }), "grid momentum: numbers are drawn with uniform log");
}

using Rounds = std::vector<Round>;
using Indices = std::vector<std::size_t>;

TEST(Halving, KeepsAShareAndMultipliesTheSteps) {
  EXPECT_EQ(halving_rounds(27, 100, 3), (Rounds{{27, 100}, {9, 300}, {3, 900}}));
  EXPECT_EQ(halving_rounds(16, 10, 2), (Rounds{{16, 10}, {8, 20}, {4, 40}, {2, 80}}));
}

TEST(Halving, RoundsTheShareDown) {
  EXPECT_EQ(halving_rounds(7, 100, 3), (Rounds{{7, 100}, {2, 300}}));
  EXPECT_EQ(halving_rounds(11, 5, 2), (Rounds{{11, 5}, {5, 10}, {2, 20}}));
}

TEST(Halving, EndsWhereOneTrialWouldBeLeft) {
  EXPECT_EQ(halving_rounds(5, 100, 3), (Rounds{{5, 100}}));
  EXPECT_EQ(halving_rounds(1, 100, 2), (Rounds{{1, 100}}));
}

TEST(Best, IsTheLowestOrTheHighest) {
  const std::vector<double> scores{3, 1, 2, 4};
  EXPECT_EQ(best_of(scores, 2, false), (Indices{1, 2}));
  EXPECT_EQ(best_of(scores, 3, true), (Indices{3, 0, 2}));
  EXPECT_EQ(best_of(scores, 9, true), (Indices{3, 0, 2, 1}));
}

TEST(Best, TheEarlierOfEqualOnes) {
  const std::vector<double> scores{2, 1, 1, 1};
  EXPECT_EQ(best_of(scores, 2, false), (Indices{1, 2}));
  EXPECT_EQ(best_of(scores, 3, true), (Indices{0, 1, 2}));
}

TEST(Best, NeverOneThatIsNotFinite) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> scores{nan, inf, 5, -inf};
  EXPECT_EQ(best_of(scores, 4, false), Indices{2});
  EXPECT_EQ(best_of(scores, 4, true), Indices{2});
  EXPECT_EQ(best_of(std::vector<double>{nan}, 1, false), Indices{});
}

}  // namespace

}  // namespace sotto
