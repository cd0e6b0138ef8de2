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
  Averaged averaged(make_optimiser(test::optimiser("sgd"), test::flat(2)), tau, 2);
  Averaged resumed(make_optimiser(test::optimiser("sgd"), test::flat(2)), tau, 2);
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

}  // namespace
}  // namespace sotto
