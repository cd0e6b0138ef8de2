#include "app/tune/halving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sotto {
namespace {

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
