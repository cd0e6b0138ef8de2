#include "sotto/comm/deadline.h"

#include <gtest/gtest.h>

#include <thread>

namespace sotto {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, IsWhatTheUserGaveUntilSomethingIsMeasured) {
  const Deadline deadline(30ms);
  EXPECT_EQ(deadline.from_now(), 30ms);
  deadline.lap();
  EXPECT_EQ(deadline.by_last_lap(), 30ms);
  EXPECT_EQ(Deadline(std::chrono::hours(24 * 365 * 1000)).from_now(), Deadline::longest);
}

TEST(Deadline, FollowsTheLastLapAndTheTimeSinceThen) {
  const Deadline deadline(30ms);
  const Deadline copy = deadline;
  deadline.lap();
  std::this_thread::sleep_for(20ms);
  EXPECT_GE(copy.from_now(), 200ms);
  EXPECT_EQ(copy.by_last_lap(), 30ms);
  deadline.lap();
  EXPECT_GE(copy.last_lap(), 20ms);
  EXPECT_GE(copy.by_last_lap(), 200ms);
  EXPECT_EQ(copy.least(), 30ms);
}

}  // namespace
}  // namespace sotto
