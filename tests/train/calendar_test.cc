#include "app/train/plan.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

Calendar calendar_of(const TrainOptions& options, std::uint64_t batches, std::uint64_t steps) {
  const auto accumulate = static_cast<std::uint64_t>(options.accumulate);
  return {options, Course(Epochs::of(batches), {.accumulate = accumulate}), steps};
}

TEST(Calendar, TellsWhatFallsDueBetweenTwoSteps) {
  TrainOptions options;
  options.checkpoint_every = 10;
  options.check_replicas = 4;
  options.accumulate = 2;
  const Calendar calendar = calendar_of(options, 7, 100);  // epochs of 3.5 steps
  const auto evaluates = [&](std::uint64_t before, std::uint64_t done) {
    return calendar.due(before, done).evaluation;
  };
  EXPECT_FALSE(evaluates(2, 3));
  EXPECT_TRUE(evaluates(3, 4));
  EXPECT_TRUE(evaluates(6, 7));
  EXPECT_FALSE(evaluates(7, 7));
  EXPECT_TRUE(calendar.due(9, 12).checkpoint);
  EXPECT_FALSE(calendar.due(10, 19).checkpoint);
  EXPECT_TRUE(calendar.due(3, 4).comparison);
  EXPECT_FALSE(calendar.due(4, 6).any());
}

TEST(Calendar, StepsBeyondAMeetingBelongToIt) {
  TrainOptions options;
  options.eval_freq = 10;
  options.checkpoint_every = 25;
  const Calendar calendar = calendar_of(options, 1000, 40);
  EXPECT_EQ(calendar.next_meeting(0), 10U);
  EXPECT_EQ(calendar.next_meeting(20), 25U);
  EXPECT_EQ(calendar.next_meeting(30), 40U);
  EXPECT_EQ(calendar.step_of_meeting(10, 6), 6U);    // a rank wished to meet
  EXPECT_EQ(calendar.step_of_meeting(10, 12), 10U);  // the other ranks had made one step more
  EXPECT_EQ(calendar.step_of_meeting(10, 27), 25U);
  EXPECT_EQ(calendar.step_of_meeting(40, 43), 40U);
}

TEST(Calendar, MeetsAtTheEndOfEpochsWhereNobodySaysHowOften) {
  TrainOptions options;
  options.accumulate = 2;
  const Calendar calendar = calendar_of(options, 7, 100);
  std::uint64_t step = 0;
  for (const std::uint64_t expected : {4U, 7U, 11U, 14U}) {
    EXPECT_EQ(step = calendar.next_meeting(step), expected);
    EXPECT_TRUE(calendar.due(step - 1, step).evaluation) << step;
  }
}

}  // namespace
}  // namespace sotto
