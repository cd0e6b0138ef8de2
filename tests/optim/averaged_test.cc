#include "sotto/optim/averaged.h"
#include "tests/support/specs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/store.h"

namespace sotto {
namespace {

TEST(Averaged, WeighsIterateTByTheSquareOfTAndTau) {
  const double tau = 7, lr = 0.1;
  Averaged averaged(make_optimiser(test::optimiser("sgd"), test::flat(2)), {.tau = tau}, 2);
  Averaged resumed(make_optimiser(test::optimiser("sgd"), test::flat(2)), {.tau = tau}, 2);
  std::vector<float> p{1.0F, -2.0F}, q;
  double weighted[2] = {0, 0}, weights = 0;
  for (std::uint64_t t = 0; t < 40; ++t) {
    std::vector<float> gradient{std::sin(static_cast<float>(t)), p[1]};
    if (t == 11) {
      q = p;
      test::hand_over(averaged, resumed);
    }
    averaged.begin_step(t);
    averaged.apply(p, gradient, 0, lr);
    if (t >= 11) {
      resumed.begin_step(t);
      resumed.apply(q, gradient, 0, lr);
    }
    const double weight = std::pow(static_cast<double>(t) + tau, 2);
    weights += weight;
    for (std::size_t i = 0; i < 2; ++i) weighted[i] += weight * p[i];
  }
  EXPECT_EQ(p, q);
  const auto mean = averaged.to_evaluate(), again = resumed.to_evaluate();
  EXPECT_TRUE(std::ranges::equal(mean, again)) << "after a resume, too";
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(mean[i], weighted[i] / weights, 1e-6);
  EXPECT_FALSE(std::ranges::equal(mean, p));
}

// torch.optim.swa_utils.AveragedModel with get_ema_avg_fn(0.75): the mean is the first iterate, and then .75 mean + .25
// p.
TEST(Averaged, ExponentiallyItIsTorchs) {
  Averaged averaged(make_optimiser(test::optimiser("sgd(momentum=0)"), test::flat(1)), {.decay = 0.75}, 1);
  Averaged resumed(make_optimiser(test::optimiser("sgd(momentum=0)"), test::flat(1)), {.decay = 0.75}, 1);
  std::vector<float> p{4.0F};
  const float steps[] = {8, -16, 4, 2};          // p = -4, 12, 8, 6
  const std::vector<float> wanted{-4, 0, 2, 3};  // exact in floats
  for (std::uint64_t t = 0; t < 4; ++t) {
    Averaged& one = t < 2 ? averaged : resumed;
    if (t == 2) test::hand_over(averaged, resumed);
    std::vector<float> gradient{steps[t]};
    one.begin_step(t);
    one.apply(p, gradient, 0, 1);
    EXPECT_EQ(one.to_evaluate()[0], wanted[t]) << t;
  }
}

TEST(Averaged, SaysWhichMean) {
  EXPECT_FALSE(Averaging{});
  EXPECT_EQ(Averaging{}.text(), "0");
  EXPECT_EQ((Averaging{.tau = 5}).text(), "5");
  EXPECT_EQ((Averaging{.decay = 0.999}).text(), "exponential, decay 0.999");
}

}  // namespace
}  // namespace sotto
