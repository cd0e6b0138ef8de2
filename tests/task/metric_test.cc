#include "app/task/metric.h"

#include <gtest/gtest.h>

#include <limits>

#include "app/task/table.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kinds{
    Metric{.name = "perplexity", .label = "ppl", .summary = "e to the loss", .rises = false},
    Metric{.name = "recall", .label = "found", .summary = "share that is found", .is_share = true},
};

TEST(Metric, KnowsWhichValueIsBetter) {
  EXPECT_TRUE(kinds[0].better(1, 2) && !kinds[0].better(2, 1) && !kinds[0].better(1, 1));
  EXPECT_TRUE(kinds[1].better(2, 1) && !kinds[1].better(1, 2) && !kinds[1].better(1, 1));
  for (const Metric& metric : kinds) EXPECT_FALSE(metric.better(nan, 1)) << metric.name;
}

TEST(Metric, ReachesATargetThatItEquals) {
  EXPECT_TRUE(kinds[0].reaches(3, 3) && kinds[0].reaches(2.9, 3) && !kinds[0].reaches(3.1, 3));
  EXPECT_TRUE(kinds[1].reaches(0.97, 0.97) && kinds[1].reaches(1, 0.97) && !kinds[1].reaches(0.9699, 0.97));
  for (const Metric& metric : kinds) EXPECT_FALSE(metric.reaches(nan, 1)) << metric.name;
}

TEST(Metrics, AreFoundByNameAndPrinted) {
  const Metrics measured{kinds, {2.5, 0.975}};
  EXPECT_EQ(measured.value("recall"), 0.975);
  EXPECT_EQ(measured.text(), "ppl 2.5000  found 97.50");
  EXPECT_EQ(kinds[1].with_unit(0.975), "97.50 %");
  EXPECT_TRUE(measured.finite());
  EXPECT_FALSE((Metrics{kinds, {nan, 0.5}}.finite()));
}

TEST(Metric, IsReadableHoweverLargeOrSmall) {
  EXPECT_EQ(kinds[0].text(0.001), "0.0010");
  EXPECT_EQ(kinds[0].text(0.0000123456), "1.235e-05");
  EXPECT_EQ(kinds[0].text(0), "0.0000");
  EXPECT_EQ(kinds[0].text(22026.46579), "22026.4658");
  EXPECT_EQ(kinds[0].text(-5.9791476e59), "-5.979e+59");
  EXPECT_EQ(kinds[0].text(nan), "nan");
}

TEST(Target, IsReadAndReached) {
  const Target falls = read_target("until", "perplexity=20", kinds);
  EXPECT_EQ(falls.text(), "perplexity=20");
  EXPECT_TRUE(falls.reached_by({kinds, {20, 0}}));
  EXPECT_FALSE(falls.reached_by({kinds, {20.5, 1}}));
  const Target rises = read_target("until", "recall=97%", kinds);
  EXPECT_EQ(rises.text(), "recall=0.97");
  EXPECT_TRUE(rises.reached_by({kinds, {0, 0.97}}));
  EXPECT_FALSE(rises.reached_by({kinds, {0, 0.96}}));
}

TEST(Target, RefusesWhatNoRunCanReach) {
  const auto refusal = [](const char* text) { return message_of([&] { read_target("until", text, kinds); }); };
  EXPECT_EQ(refusal("recal=0.5"), "until: unknown metric `recal`; did you mean `recall`? known: perplexity, recall");
  EXPECT_NE(refusal("=0.5").find("known: perplexity, recall"), std::string::npos);
  EXPECT_EQ(refusal("recall"), "until recall: say at which value, as recall=0.97");
  EXPECT_EQ(refusal("recall=97"), "until recall=97: recall must be in [0, 1]");
  EXPECT_NE(refusal("recall=").find("recall must be a number"), std::string::npos);
  EXPECT_NE(refusal("perplexity=low").find("must be a number, not `low`"), std::string::npos);
  EXPECT_NE(refusal("perplexity=nan").find("must be a number"), std::string::npos);
}

// Tables and records above this folder rely on these facts.
TEST(TaskTable, EachTaskHasGoalAndLoss) {
  for (const TaskEntry& entry : task_table()) {
    EXPECT_EQ(metric_table(entry.metrics).require("goal", entry.goal).name, entry.goal);
    EXPECT_FALSE(metric_table(entry.metrics).require("loss", "loss").rises);
    EXPECT_FALSE(entry.models().empty());
  }
  EXPECT_NE(message_of([] { task_table().require("task", "clasify"); }).find("did you mean `classify`"),
            std::string::npos);
}

}  // namespace
}  // namespace sotto
