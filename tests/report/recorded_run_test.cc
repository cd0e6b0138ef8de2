#include "app/report/recorded_run.h"

#include <gtest/gtest.h>

#include "app/train/folder/folder_lock.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

StepFigures row_of(std::uint64_t step, std::uint64_t rank, double ms) {
  StepFigures row;
  row.step = step;
  row.rank = rank;
  row.epoch = static_cast<double>(step) / 100;
  row.step_ms = ms;
  return row;
}

TEST(LiveRun, TheTimeLeftFollowsTheFurthestRank) {
  LiveRun run;
  run.options.epochs = 2;
  EXPECT_FALSE(run.left().has_value());
  run.rows = {row_of(0, 0, 10)};
  EXPECT_FALSE(run.left().has_value()) << "how long an epoch is cannot be known";
  run.rows = {row_of(0, 0, 10), row_of(0, 1, 500), row_of(1, 0, 30)};
  EXPECT_NEAR(run.left().value(), 198 * 0.02, 1e-9);
  run.options.max_steps = 12;
  EXPECT_NEAR(run.left().value(), 10 * 0.02, 1e-9);
  run.options.max_steps = 1;
  EXPECT_EQ(run.left().value(), 0);
}

TEST(LiveRun, RecentMeansAreThoseOfTheLastRows) {
  LiveRun run;
  run.rows = {row_of(0, 1, 100), row_of(1, 1, 4), row_of(0, 0, 7), row_of(2, 1, 6)};
  const auto times = run.recent(2);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].means.step_ms, 7);
  EXPECT_EQ(times[1].means.step_ms, 5);
  const auto latest = run.latest();
  EXPECT_EQ(latest.at(0).step, 0U);
  EXPECT_EQ(latest.at(1).step, 2U);
}

TEST(LiveRun, ASummaryIsOutdatedByLaterRows) {
  RunSummary summary;
  summary.steps = 3;
  const std::vector<StepFigures> rows{row_of(2, 0, 1), row_of(4, 1, 1)};
  EXPECT_FALSE(is_outdated(summary, std::span(rows).first(1)));
  EXPECT_TRUE(is_outdated(summary, rows));
  summary.rank_steps = {3, 5};  // at their own speed
  EXPECT_FALSE(is_outdated(summary, rows));
}

TEST(LiveRun, AHeldLockMeansAtWork) {
  const TempFolder folder;
  EXPECT_FALSE(is_at_work(folder.path())) << "nobody has locked it yet";
  {
    const FolderLock lock(folder.path());
    EXPECT_TRUE(is_at_work(folder.path()));
    EXPECT_FALSE(read_live_run(folder.path().string()).has_value());
  }
  EXPECT_FALSE(is_at_work(folder.path()));
  EXPECT_TRUE(FolderLock(folder.path()).held()) << "looking left nothing locked";
  EXPECT_NE(message_of([&] { read_live_run((folder.path() / "nosuch").string()); }).find("there is no such run folder"),
            std::string::npos);
}

}  // namespace
}  // namespace sotto
