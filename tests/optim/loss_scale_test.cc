#include "sotto/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "sotto/optim/averaged.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

LossScale scale_of(double scale, std::int64_t every) {
  LossScaleOptions options;
  options.scale = scale;
  options.every = every;
  return LossScale(options);
}

TEST(LossScale, BeginsAsGradScalerDoes) { EXPECT_EQ(LossScale(LossScaleOptions{}).value(), 65536); }

TEST(LossScale, IsHalvedByAnOverflowAndDoubledAfterSoManyStepsInARow) {
  LossScale scale = scale_of(64, 3);
  std::vector<float> values;
  for (const bool overflows : {false, false, true, false, false, false, false, true, true}) {
    scale.end_step(overflows);
    EXPECT_EQ(scale.is_void(), overflows);
    values.push_back(scale.value());
  }
  EXPECT_EQ(values, (std::vector<float>{64, 64, 32, 32, 32, 64, 64, 32, 16}));
  EXPECT_EQ(scale.taken(), 6U);
  EXPECT_EQ(scale.skipped(), 3U);
}

TEST(LossScale, IsSpentBelowOne) {
  LossScale scale = scale_of(2, 3);
  scale.end_step(true);
  EXPECT_FALSE(scale.is_spent()) << scale.value();
  scale.end_step(true);
  EXPECT_TRUE(scale.is_spent()) << scale.value();
}

TEST(LossScale, StaysFinite) {
  LossScale scale = scale_of(1e30, 1);
  for (int step = 0; step < 100; ++step) scale.end_step(false);
  EXPECT_LT(scale.value(), infinite);
}

TEST(LossScale, DividesGradientsAndFindsWhatOverflowed) {
  const LossScale scale = scale_of(1024, 3);
  std::vector<float> gradient{1024, -512, 0, 1};
  EXPECT_TRUE(scale.unscale(gradient));
  EXPECT_EQ(gradient, (std::vector<float>{1, -0.5, 0, 1.0F / 1024}));
  for (const float odd : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> overflown(100, 1);
    overflown[77] = odd;
    EXPECT_FALSE(scale.unscale(overflown)) << odd;
  }
}

TEST(LossScale, ComesBackFromACheckpoint) {
  LossScale scale = scale_of(64, 3);
  for (const bool overflows : {false, true, false, false}) scale.end_step(overflows);
  test::Store store;
  scale.visit_state(store);
  LossScale other = scale_of(1 << 20, 3);
  store.reading = true;
  other.visit_state(store);
  EXPECT_EQ(other.value(), 32);
  EXPECT_EQ(other.taken(), 3U);
  EXPECT_EQ(other.skipped(), 1U);
  other.end_step(false);
  EXPECT_EQ(other.value(), 64) << "the third in a row";
}

// A wrapped optimiser ends where the same optimiser ends if it is not called in void steps. The state of each of these
// optimisers depends on the number of its steps.
TEST(Skipping, LeavesVoidStepsOut) {
  Layout layout;
  layout.append("x", {16});
  for (const char* text : {"adam", "sgd(momentum=0.9, dampening=0.5)", "adagrad(lr-decay=0.5)", "signum", "lamb"}) {
    const auto make = [&] {
      return std::make_unique<Averaged>(make_optimiser(test::optimiser(text), layout), Averaging{.decay = 0.9},
                                        layout.size());
    };
    LossScale scale = scale_of(1 << 20, 3);
    Skipping skipping(make(), scale);
    const auto plain = make();
    std::vector<float> with(layout.size(), 1), without(layout.size(), 1);
    std::uint64_t taken = 0;
    for (std::uint64_t step = 0; step < 8; ++step) {
      const bool is_void = step == 0 || step == 3 || step == 4;
      std::vector<float> gradient(layout.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = is_void ? 0 : static_cast<float>(i) - static_cast<float>(step);
      }
      std::vector<float> again = gradient;
      skipping.begin_step(step);
      scale.end_step(is_void);
      skipping.apply(with, skipping.offer(gradient, 0), 0, 0.1);
      if (is_void) continue;
      plain->begin_step(taken++);
      plain->apply(without, plain->offer(again, 0), 0, 0.1);
      EXPECT_EQ(with, without) << text << " at step " << step;
    }
    const auto mean = skipping.to_evaluate(), wanted = plain->to_evaluate();
    EXPECT_TRUE(std::ranges::equal(mean, wanted)) << text;
  }
}

}  // namespace
}  // namespace sotto
