#include "sotto/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

Schedule schedule(std::string_view expression, std::uint64_t horizon = 100, std::uint64_t per_epoch = 10) {
  return make_schedule(read_schedule(parse_expression("lr-schedule", expression)), horizon, {per_epoch});
}

std::vector<double> factors(std::string_view expression, const std::vector<std::uint64_t>& steps,
                            std::uint64_t horizon = 100, std::uint64_t per_epoch = 10) {
  const auto made = schedule(expression, horizon, per_epoch);
  std::vector<double> values;
  for (const std::uint64_t step : steps) values.push_back(made(step));
  return values;
}

using Values = std::vector<double>;

void expect_near(const Values& got, const Values& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << "place " << i;
}

TEST(Schedule, Constant) { EXPECT_EQ(factors("constant", {0, 50, 1000000}), (Values{1, 1, 1})); }

TEST(Schedule, Step) {
  EXPECT_EQ(factors("step(every=50, factor=0.5)", {0, 49, 50, 99, 100, 150}), (Values{1, 1, 0.5, 0.5, 0.25, 0.125}));
  EXPECT_EQ(factors("step(3, 0.5, unit=epoch)", {0, 29, 30, 60}), (Values{1, 1, 0.5, 0.25}));
  expect_near(factors("step(every=50, factor=0.95)", {500}), {std::pow(0.95, 10)});
}

TEST(Schedule, Milestones) {
  EXPECT_EQ(factors("milestones(at=3/6/8, factor=0.5)", {0, 29, 30, 59, 60, 79, 80, 500}),
            (Values{1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125}));
  EXPECT_EQ(factors("milestones(3/6, 0.5, unit=step)", {2, 3, 5, 6}), (Values{1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(factors("milestones(7)", {69, 70}), (Values{1, 0.1}));
}

// A rate changes at the first step that begins in its epoch, also where a step is no whole part of an epoch.
TEST(Schedule, CountsEpochsOfTheData) {
  const auto changes = [](std::string_view expression, const EpochLength& epoch) {
    const Schedule made = make_schedule(read_schedule(parse_expression("lr-schedule", expression)), 40, epoch);
    std::vector<std::uint64_t> steps;
    for (std::uint64_t step = 1; step < 40; ++step) {
      if (made(step) != made(step - 1)) steps.push_back(step);
    }
    return steps;
  };
  using Steps = std::vector<std::uint64_t>;
  EXPECT_EQ(changes("milestones(6/12)", {5, 3}), (Steps{10, 20}));
  EXPECT_EQ(changes("milestones(6/12)", {5, 10}), (Steps{3, 6})) << "a step is two epochs";
  EXPECT_EQ(changes("step(every=6, unit=epoch)", {5, 4}), (Steps{8, 15, 23, 30, 38}));
  EXPECT_EQ(changes("time-decay(rate=1, unit=epoch)", {22, 2}), (Steps{11, 22, 33}));
  EXPECT_EQ(changes("warmup(epochs=6) | constant", {5, 10}), (Steps{1, 2}));
  EXPECT_NEAR(make_schedule(read_schedule(parse_expression("lr-schedule", "inverse-sqrt(unit=epoch)")), 40, {5, 10})(3),
              1 / std::sqrt(7.0), 1e-12);
}

TEST(Schedule, Cosine) {
  expect_near(factors("cosine", {0, 25, 50, 75, 100, 200}),
              {1, 0.5 + std::sqrt(0.125), 0.5, 0.5 - std::sqrt(0.125), 0, 0});
  expect_near(factors("cosine(floor=0.1)", {0, 50, 100}), {1, 0.55, 0.1});
}

TEST(Schedule, Polynomial) {
  expect_near(factors("polynomial", {0, 25, 100, 200}), {1, 0.75, 0, 0});
  expect_near(factors("polynomial(power=2, floor=0.5)", {0, 50, 100}), {1, 0.625, 0.5});
  expect_near(factors("warmup(steps=20) | polynomial", {9, 20, 60, 100}), {0.5, 1, 0.5, 0});
}

TEST(Schedule, InverseSqrt) {
  expect_near(factors("inverse-sqrt", {0, 3, 99}), {1, 0.5, 0.1});
  // Vaswani et al.: step n has w^-0.5 * min(n * w^-1, (n / w)^-0.5), here in units of the largest rate.
  expect_near(factors("warmup(steps=25) | inverse-sqrt", {0, 24, 25, 99}), {0.04, 1, std::sqrt(25.0 / 26), 0.5});
  expect_near(factors("inverse-sqrt(unit=epoch)", {0, 9, 10, 39}), {1, 1, std::sqrt(0.5), 0.5});
  expect_near(factors("warmup(epochs=2) | inverse-sqrt(unit=epoch)", {19, 20, 79}), {1, std::sqrt(2.0 / 3), 0.5});
}

TEST(Schedule, TimeDecay) {
  expect_near(factors("time-decay(0.1)", {0, 10, 90}), {1, 0.5, 0.1});
  expect_near(factors("time-decay(0.5, unit=epoch)", {9, 10, 29, 80}), {1, 1 / 1.5, 0.5, 0.2});
}

TEST(Schedule, OneCycle) {
  // Of 100 steps, the rate rises up to step 29 and falls down to step 99.
  expect_near(factors("one-cycle(form=linear)", {0, 29, 64, 99, 150}), {0.04, 1, 0.500002, 4e-6, 4e-6});
  expect_near(factors("one-cycle(rise=0.51, div=10, final-div=1)", {0, 25, 50, 99}), {0.1, 0.55, 1, 0.1});
  expect_near(factors("warmup(steps=50, from=0.5) | one-cycle(rise=0.5, form=linear)", {24, 50, 74, 99}),
              {0.75 * 0.04, 0.04, 1, 4e-6});
}

TEST(Schedule, WarmupRampsUpToTheFirstFullStep) {
  expect_near(factors("warmup(steps=4)", {0, 1, 2, 3, 4, 99}), {0.25, 0.5, 0.75, 1, 1, 1});
  expect_near(factors("warmup(epochs=0.4)", {0, 3, 4}), {0.25, 1, 1});
  expect_near(factors("warmup(epochs=0.07)", {0, 6, 7}, 1000, 100), {1.0 / 7, 1, 1});  // 0.07 * 100 > 7
  expect_near(factors("warmup(epochs=0.071)", {0, 7}, 1000, 100), {1.0 / 8, 1});
  expect_near(factors("warmup(steps=4, from=0.2)", {0, 1, 3}), {0.4, 0.6, 1});
  expect_near(factors("warmup(steps=4, from=0.0625, form=exponential)", {0, 1, 2, 3, 4}), {0.125, 0.25, 0.5, 1, 1});
}

TEST(Schedule, WarmupInFrontOfEachPart) {
  // Milestones and steps are counted from the start of training; a cosine spans the steps that are left.
  expect_near(factors("warmup(epochs=1) | milestones(at=3/6)", {4, 9, 10, 29, 30, 60}), {0.5, 1, 1, 1, 0.1, 0.01});
  expect_near(factors("warmup(steps=4) | step(every=2, factor=0.5)", {0, 2, 4}), {0.25, 0.375, 0.25});
  expect_near(factors("warmup(steps=20) | cosine(floor=0.5)", {9, 20, 60, 100}), {0.5, 1, 0.75, 0.5});
  expect_near(factors("warmup(steps=2) | constant", {0, 2}), {0.5, 1});
}

TEST(Schedule, IsAPureFunctionOfTheStep) {
  const auto one = schedule("warmup(steps=10) | cosine");
  const auto other = schedule("warmup(steps=10) | cosine");
  const double late = other(70);
  for (std::uint64_t step = 0; step < 100; ++step) EXPECT_EQ(one(step), schedule("warmup(steps=10) | cosine")(step));
  EXPECT_EQ(one(70), late);
}

// The factors of a schedule after each evaluation with these metrics.
Values after(std::string_view expression, const Values& metrics, bool rises) {
  Schedule made = schedule(expression);
  Values factors;
  for (const double metric : metrics) {
    const double before = made(50);
    const bool fell = made.plateau()->evaluated(metric, rises);
    EXPECT_EQ(fell, made(50) < before);
    factors.push_back(made(50));
  }
  return factors;
}

TEST(Schedule, PlateauFallsWhereNothingImproves) {
  const double half = 0.5, quarter = 0.25;
  // The third bad evaluation in a row is more than two.
  EXPECT_EQ(after("plateau(factor=0.5, patience=2)", {1, 2, 3, 4, 0.5, 1, 1, 1}, false),
            (Values{1, 1, 1, half, half, half, half, quarter}));
  EXPECT_EQ(after("plateau(factor=0.5, patience=0)", {1, 2, 2, 3}, true), (Values{1, 1, half, half}));
  // Only a change by more than a tenth (or by more than .1) is an improvement.
  EXPECT_EQ(after("plateau(factor=0.5, patience=0, threshold=0.1)", {10, 9.5, 8.9}, false), (Values{1, half, half}));
  EXPECT_EQ(after("plateau(factor=0.5, patience=0, threshold=0.1, threshold-mode=abs)", {10, 10.05, 10.2}, true),
            (Values{1, half, half}));
  // Two evaluations after a change do not count.
  EXPECT_EQ(after("plateau(factor=0.5, patience=0, cooldown=2)", {1, 1, 1, 1, 1}, true),
            (Values{1, half, half, half, quarter}));
  EXPECT_EQ(after("plateau(factor=0.5, patience=0, floor=0.3)", {1, 1, 1, 1}, true), (Values{1, half, 0.3, 0.3}));
  EXPECT_EQ(after("plateau(factor=0.5, patience=0)", {std::nan(""), 1, std::nan("")}, false),
            (Values{half, half, quarter}));
  EXPECT_EQ(after("warmup(steps=60, from=0) | plateau(factor=0.5, patience=0)", {1, 1}, true), (Values{0.85, 0.425}));
  EXPECT_EQ(schedule("cosine").plateau(), nullptr);
}

TEST(Schedule, APlateauContinuesFromItsState) {
  const char* const expression = "plateau(factor=0.5, patience=1, cooldown=1)";
  Schedule whole = schedule(expression), first = schedule(expression), second = schedule(expression);
  const Values metrics{3, 4, 5, 5, 5, 2, 3, 3, 3, 3, 1, 2, 2, 2};
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    Schedule& now = i < 4 ? first : second;
    if (i == 4) test::hand_over(*first.plateau(), *second.plateau());
    whole.plateau()->evaluated(metrics[i], false);
    now.plateau()->evaluated(metrics[i], false);
    EXPECT_EQ(now(0), whole(0)) << i;
  }
  EXPECT_LT(whole(0), 0.25);
}

std::string error_of(std::string_view expression, std::uint64_t horizon = 100) {
  try {
    schedule(expression, horizon);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// Expects an error that contains `part`, with its caret under the last occurrence of `under` in the expression.
void expect_error(const std::string& expression, const std::string& part, const std::string& under) {
  const std::string error = error_of(expression);
  EXPECT_NE(error.find("lr-schedule"), std::string::npos) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
  const std::string caret = "\n  " + expression + "\n  " + std::string(expression.rfind(under), ' ') + "^";
  EXPECT_NE(error.find(caret), std::string::npos) << error;
}

TEST(Schedule, ErrorsPointAtTheirCause) {
  expect_error("cosin", "did you mean `cosine`?", "cosin");
  expect_error("cosine(floor=1.5)", "floor must be in [0, 1]", "1.5");
  expect_error("step(every=0)", "every must be in", "0");
  expect_error("step(every=5, factor=0)", "factor must be in", "0)");
  expect_error("step(every=5, unit=day)", "unit must be one of step, epoch", "day");
  expect_error("constant(1)", "takes no arguments", "1");
  expect_error("warmup(steps=4, form=exponential)", "an exponential ramp starts above 0", "warmup");
  expect_error("one-cycle(rise=0.001)", "has no step in which it rises", "one-cycle");
  expect_error("polynomial(power=0)", "power must be in (0, inf)", "0)");
  expect_error("milestones", "ascending whole numbers", "milestones");
  expect_error("milestones(at=)", "ascending whole numbers", "milestones");
  expect_error("milestones(at=30/x)", "ascending whole numbers", "milestones");
  expect_error("milestones(at=30/60/)", "ascending whole numbers", "milestones");
  expect_error("milestones(30/20)", "ascending whole numbers", "milestones");
  expect_error("milestones(0/20)", "ascending whole numbers", "milestones");
  expect_error("milestones(factor=0.1, at=3.5)", "ascending whole numbers", "milestones");
  expect_error("milestones(99999999999)", "ascending whole numbers", "milestones");
  expect_error("plateau(factor=1)", "factor must be in (0, 1)", "1)");
  expect_error("plateau(patience=-1)", "patience must be in", "-1");
  expect_error("plateau | cosine", "a schedule is one part", "cosine");
  expect_error("warmup", "either in steps or in epochs", "warmup");
  expect_error("warmup(steps=5, epochs=1)", "either in steps or in epochs", "warmup");
  expect_error("warmup(steps=100) | cosine", "do not fit into a training of 100", "warmup");
  expect_error("warmup(epochs=1e300)", "do not fit", "warmup");
  expect_error("warmpu(steps=1) | cosine", "did you mean `warmup`?", "warmpu");
  expect_error("warmup(steps=1) | warmup(steps=2)", "stands in front", "warmup");
  expect_error("cosine | warmup(steps=1)", "a schedule is one part", "warmup");
  expect_error("cosine | constant", "a schedule is one part", "constant");
  expect_error("warmup(steps=1) | cosine | constant", "a schedule is one part", "constant");
  expect_error("warmup(steps=1) | cosine(ceiling=1)", "ceiling", "ceiling");
}

TEST(Schedule, ACosineNeedsALength) { EXPECT_NE(error_of("cosine", 0).find("0 steps"), std::string::npos); }

}  // namespace
}  // namespace sotto
