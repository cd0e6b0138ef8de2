#include "app/train/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "app/data/order.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

TEST(Course, OfARunWhoseRanksStayCountsItsSteps) {
  const Course course(Epochs::of(7), {.ranks = 3, .batch = 5, .accumulate = 2});  // epochs of 3.5 steps
  EXPECT_DOUBLE_EQ(course.epochs_at(7), 2);
  EXPECT_EQ(course.epoch_of(3), 0U);
  EXPECT_EQ(course.epoch_of(4), 1U);
  EXPECT_EQ(course.first_step_in(1), 4U);
  EXPECT_EQ(course.steps_before(1), 3U);
  for (std::uint64_t step = 0; step < 20; ++step) EXPECT_EQ(course.scheduled_step(step), step);
}

// An order that continues there tells what is left of the epoch.
Course changed(const Course& before, std::uint64_t step, const StepSize& size, std::size_t examples) {
  Course course = before.changed(step, size);
  ExampleOrder order(examples, {.ranks = static_cast<int>(size.ranks), .batch = size.batch});
  order.go_on(course.start(), {0, static_cast<int>(size.ranks)});
  course.set_epochs(order.epochs());
  return course;
}

TEST(Course, GoesByExamplesWhenRanksChange) {
  const std::size_t examples = 800;
  const Course of_four(Epochs::of(20), {.ranks = 4, .batch = 10});
  const Course of_two = changed(of_four, 25, {.ranks = 2, .batch = 10}, examples);
  EXPECT_DOUBLE_EQ(of_two.epochs_at(25), 1.25);
  EXPECT_DOUBLE_EQ(of_two.epochs_at(35), 1.5);
  EXPECT_EQ(of_two.first_step_in(2), 55U) << "each step has half the examples";
  EXPECT_EQ(of_two.steps_before(4), 135U);
  EXPECT_EQ(of_two.scheduled_step(25), 25U);
  EXPECT_EQ(of_two.scheduled_step(36), 30U);
  EXPECT_EQ(of_two.scheduled_step(65), 45U);

  const Course again = changed(of_two, 35, {.ranks = 4, .batch = 5, .accumulate = 2}, examples);
  EXPECT_EQ(again.start().read.size(), 2U);
  EXPECT_EQ(again.start().position, 70U);
  EXPECT_DOUBLE_EQ(again.epochs_at(45), 2);
  EXPECT_EQ(again.scheduled_step(44), 39U);
  EXPECT_EQ(again.steps_before(2), 45U);
  EXPECT_EQ(changed(again, 45, {.ranks = 2, .batch = 10}, examples).start().read.size(), 0U) << "an epoch begins";
  EXPECT_EQ(again.steps_before(1), 35U) << "epochs that are over take no more steps";
}

TEST(Course, IsReadAsItWasWritten) {
  const Course course = changed({Epochs::of(20), {.ranks = 4, .batch = 10}}, 25, {.ranks = 2, .batch = 20}, 800);
  const Course read = Course::of_text(course.text());
  EXPECT_EQ(read.text(), course.text());
  EXPECT_EQ(read.size(), course.size());
  for (std::uint64_t step = 25; step < 60; ++step) EXPECT_EQ(read.epochs_at(step), course.epochs_at(step));
}

TEST(Course, RefusesTextsThatAreNone) {
  const std::string good = Course(Epochs::of(20), {.ranks = 4, .batch = 10}).text();
  EXPECT_NO_THROW(Course::of_text(good));
  for (const std::string& text : {std::string(), good + " 1", good + " 0 1 1", good + " x", good + " -1 1 1",
                                  good + " 1 1 99999999999999999999999", "0" + good.substr(good.find(' ')),
                                  good.substr(0, good.rfind(' ')) + " 21"}) {
    EXPECT_THROW(Course::of_text(text), FileError) << text;
  }
}

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
