#include "sotto/task/classify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sotto/data/dataset.h"
#include "sotto/data/loader.h"
#include "sotto/model/model.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

TaskSetup setup() {
  TaskSetup made{.model = "logreg", .data = {.train_size = 60, .test_size = 23}};
  made.batch = 10;
  made.test_batch = 4;
  return made;
}

TEST(Classify, KnowsItsSizes) {
  TaskSetup some = setup();
  some.share = {1, 2};
  const auto task = make_classify(some);
  EXPECT_EQ(task->examples(Split::train), 60U);
  EXPECT_EQ(task->examples(Split::test), 23U);
  EXPECT_EQ(task->positions_per_epoch(), 3U) << "of two ranks";
  EXPECT_EQ(task->layout().numel(), 7850U);
  EXPECT_EQ(task->parameters().size(), task->gradient().size());
  EXPECT_EQ(task->goal().name, task_table().require("task", "classify").goal);
  EXPECT_DOUBLE_EQ(task->loss_of_guessing(), std::log(10));
}

// The position alone says which examples: those that the loader has there, whatever was asked for before.
TEST(Classify, APositionIsABatchOfTheEpochsOrder) {
  TaskSetup some = setup();
  some.share = {1, 2};
  const auto task = make_classify(some);
  const auto data = open_dataset(some.data, Split::train);
  Loader loader(*data, {some.seed, 1, 2, 10});
  const auto model = make_model(model_table().require("model", "logreg"), data->shape(), data->classes(), some.seed);
  ASSERT_TRUE(std::ranges::equal(task->parameters(), model->parameters()));
  for (const std::uint64_t position : {4, 0, 2}) {
    std::ranges::fill(task->gradient(), 0.0F);
    std::ranges::fill(model->gradient(), 0.0F);
    EXPECT_EQ(task->accumulate_gradient(position, 1, 7, {}), model->accumulate_gradient(loader.at(position), 1, 7, {}));
    EXPECT_TRUE(std::ranges::equal(task->gradient(), model->gradient())) << position;
  }
}

TEST(Classify, TalliesOfSharesAddUp) {
  const auto task = make_classify(setup());
  const Tally whole = task->evaluate(Split::test, {});
  Tally sum(whole.size());
  for (int rank = 0; rank < 3; ++rank) {
    const Tally part = task->evaluate(Split::test, {rank, 3});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_EQ(whole[1], 23);
  EXPECT_NEAR(sum[0], whole[0], 1e-5);
  EXPECT_TRUE(std::equal(sum.begin() + 1, sum.end(), whole.begin() + 1));
  const Metrics all = task->metrics(whole);
  EXPECT_NEAR(all.value("loss"), whole[0] / 23, 1e-12);
  EXPECT_EQ(all.value("accuracy"), whole[2] / 23);
  EXPECT_GE(all.value("top5"), all.value("accuracy"));
  EXPECT_TRUE(task->metrics(Tally(4)).values.empty()) << "of no example";
  EXPECT_EQ(task->evaluate(Split::train, {})[1], 60);
}

TEST(Classify, CountsWhatItTrains) {
  const auto task = make_classify(setup());
  const double first = task->accumulate_gradient(0, 1, 1, {}), second = task->accumulate_gradient(1, 1, 1, {});
  const Metrics both = task->metrics(task->trained());
  EXPECT_NEAR(both.value("loss"), (first + second) / 2, 1e-12);
  EXPECT_EQ(task->trained()[1], 20);
  EXPECT_NEAR(both.value("accuracy") * 20, std::round(both.value("accuracy") * 20), 1e-12);
  EXPECT_EQ(both.value("accuracy"), task->trained()[2] / 20);
}

TEST(Classify, EvaluatesWithoutTrainingData) {
  TaskSetup some = setup();
  some.batch = 0;
  some.data.train_size = 99'999'999;  // which cannot be had
  EXPECT_EQ(make_classify(some)->evaluate(Split::test, {})[1], 23);
}

TEST(Classify, RefusesWhatDoesNotFit) {
  TaskSetup some = setup();
  some.model = "lenett";
  EXPECT_NE(message_of([&] { make_classify(some); }).find("model: unknown model"), std::string::npos);
  EXPECT_NE(message_of([&] { classify_defaults("lenett"); }).find("model: unknown model"), std::string::npos);
  EXPECT_EQ(classify_defaults("lenet").momentum, 0.9);
  some = setup();
  some.share = {0, 7};
  EXPECT_NE(message_of([&] { make_classify(some); }).find("cannot fill one global batch"), std::string::npos);
}

}  // namespace
}  // namespace sotto
