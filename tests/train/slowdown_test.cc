#include "app/train/replica.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {
using std::chrono::seconds;

TEST(Slowdown, MultipliesWhatWasComputedAndAddsADelayAStep) {
  Slowdown slow(3, 2);
  const Clock::time_point begin{};
  slow.begin(begin);
  EXPECT_EQ(slow.until(begin + seconds(10)), begin + seconds(32));
  EXPECT_EQ(slow.until(begin + seconds(20)), begin + seconds(62));
  slow.begin(begin + seconds(100));
  EXPECT_EQ(slow.until(begin + seconds(110)), begin + seconds(132));
}

TEST(Slowdown, WaitingForOthersIsNotComputing) {
  Slowdown slow(3, 0);
  const Clock::time_point begin{};
  slow.begin(begin);
  slow.waited(seconds(4));
  EXPECT_EQ(slow.until(begin + seconds(10)), begin + seconds(4 + 3 * 6));
  slow.waited(seconds(1));
  EXPECT_EQ(slow.until(begin + seconds(11)), begin + seconds(5 + 3 * 6));
}

}  // namespace
}  // namespace sotto
