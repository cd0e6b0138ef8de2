#include "sotto/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "sotto/optim/clip.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using test::message_of;

ClipSpec spec_of(const char* text) { return clip_table().read("clip", text); }

std::vector<float> clipped(const char* text, std::vector<float> gradient) {
  clip(spec_of(text), gradient);
  return gradient;
}

TEST(Clip, ByNorm) {
  const double factor = 2 / (std::sqrt(9.0 + 16.0 + 144.0) + 1e-6);
  const auto found = clipped("norm(2)", {3, -4, 0, 12});
  const std::vector<double> wanted{3 * factor, -4 * factor, 0, 12 * factor};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6);
  EXPECT_EQ(clipped("norm(14)", {3, -4, 0, 12}), (std::vector<float>{3, -4, 0, 12})) << "short enough";
  EXPECT_EQ(clipped("norm", {0, 0}), (std::vector<float>{0, 0}));
}

TEST(Clip, ByValue) { EXPECT_EQ(clipped("value(0.5)", {3, -4, 0, 0.25F}), (std::vector<float>{0.5, -0.5, 0, 0.25})); }

TEST(Clip, HidesNothingThatIsNotFinite) {
  const float infinite = std::numeric_limits<float>::infinity(), none = std::nanf("");
  for (const char* text : {"norm(1)", "value(1)"}) {
    EXPECT_FALSE(std::isfinite(clipped(text, {1, infinite, 2})[1])) << text;
    EXPECT_FALSE(std::isfinite(clipped(text, {none, 1, 2})[0])) << text;
  }
}

TEST(Clip, SaysWhen) {
  EXPECT_TRUE(clips(spec_of("norm(1)"), "after"));
  EXPECT_TRUE(clips(spec_of("value(1, when=before)"), "before"));
  EXPECT_FALSE(clips(spec_of("value(1, before)"), "after"));
  EXPECT_FALSE(clips({}, "before") || clips({}, "after"));
}

TEST(Clip, RefusesWhatHasNoMeaning) {
  const auto refusal = [](const char* text) { return message_of([&] { spec_of(text); }); };
  EXPECT_NE(refusal("nrom(1)").find("unknown way to clip `nrom`; did you mean `norm`"), std::string::npos);
  EXPECT_NE(refusal("norm(0)").find("most must be in [1e-30, inf)"), std::string::npos);
  EXPECT_NE(refusal("norm(1, when=never)").find("when must be one of before, after"), std::string::npos);
  EXPECT_NE(refusal("norm(1) | value(1)").find("a single call"), std::string::npos);
}

// SGD takes the step of the clipped gradient, and the state of the wrapped optimiser is saved.
TEST(Clipped, StepsAlongWhatWasClipped) {
  Clipped optimiser(make_optimiser(test::optimiser("sgd(momentum=0.5)"), test::flat(2)), spec_of("norm(1)"), 2);
  Clipped resumed(make_optimiser(test::optimiser("sgd(momentum=0.5)"), test::flat(2)), spec_of("norm(1)"), 2);
  std::vector<float> p{1, 2}, first{3, 4}, second{0.3F, 0.4F};
  optimiser.begin_step(0);
  optimiser.apply(p, first, 0, 0.5);  // along .6, .8
  EXPECT_NEAR(p[0], 1 - 0.5 * 0.6, 1e-6);
  EXPECT_NEAR(p[1], 2 - 0.5 * 0.8, 1e-6);
  test::hand_over(optimiser, resumed);
  resumed.begin_step(1);
  resumed.apply(p, second, 0, 0.5);  // along .3 + .5 * .6, .4 + .5 * .8
  EXPECT_NEAR(p[0], 0.7 - 0.5 * 0.6, 1e-6);
  EXPECT_NEAR(p[1], 1.6 - 0.5 * 0.8, 1e-6);
}

TEST(Clipped, ANormIsOfAllOfIt) {
  Clipped norm(make_optimiser(test::optimiser("sgd"), test::flat(4)), spec_of("norm(1)"), 4);
  Clipped value(make_optimiser(test::optimiser("sgd(momentum=0)"), test::flat(4)), spec_of("value(1)"), 4);
  std::vector<float> p(4), g{5, 5, 5, 5};
  EXPECT_THROW(norm.apply(std::span(p).first(2), std::span(g).first(2), 0, 1), std::logic_error);
  value.apply(std::span(p).last(2), std::span(g).last(2), 2, 1);
  EXPECT_EQ(p, (std::vector<float>{0, 0, -1, -1}));
}

}  // namespace
}  // namespace sotto
