// Laws of every task, by the table of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/images/loader.h"
#include "app/model/image_model.h"
#include "app/task/table.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

// For each task, a model that is quick to train, and the number of losses of an example. 0 where that number varies, so
// that a position averages means of different weights.
struct Quick {
  std::string_view task, model;
  double losses = 1;
};
constexpr std::array quick_models{
    Quick{"classify", "logreg"},
    Quick{"regress", "logreg"},
    Quick{"language", "gpt-mini(layers=1, heads=1, width=8, context=16)", 16},
    Quick{"masked", "bert-mini(layers=1, heads=1, width=8, inner=8, context=16)", 2},
    Quick{"translate", "transformer-tiny(layers=1, heads=1, width=8, inner=8, beam=2)", 0},
    Quick{"classify-rows", "logreg"},
    Quick{"regress-rows", "linreg"},
};

class EveryTask : public testing::TestWithParam<std::string_view> {
 protected:
  const TaskEntry& entry_ = task_table().require("task", GetParam());
  ModelChoice model(std::string_view text) const { return entry_.read_model(parse_expression("model", text)); }
  const Quick& quick_ = *std::ranges::find(quick_models, GetParam(), &Quick::task);
  TaskSetup setup_ = [this] {
    TaskSetup made{.model = model(quick_.model), .data = {.train_size = 60, .test_size = 23}};
    made.batch = 10;
    made.test_batch = 4;
    return made;
  }();
};

INSTANTIATE_TEST_SUITE_P(Table, EveryTask, testing::ValuesIn(task_table().names()), [](const auto& task) {
  std::string name(task.param);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST_P(EveryTask, KnowsItsSizes) {
  setup_.share = {1, 2};
  const auto task = entry_.make(setup_);
  EXPECT_EQ(task->examples(Split::train), 60U);
  EXPECT_EQ(task->examples(Split::test), 23U);
  if (quick_.losses > 0) {
    EXPECT_EQ(task->epochs().each, 3U) << "of two ranks";
  }
  EXPECT_EQ(task->parameters().size(), task->gradient().size());
  EXPECT_GT(task->loss_of_guessing(), 0);
}

// The position alone determines the examples of a batch, in whatever order positions are asked for. The loader has the
// same ones.
TEST_P(EveryTask, PositionsFollowTheEpochsOrder) {
  setup_.share = {1, 2};
  const auto task = entry_.make(setup_), other = entry_.make(setup_);
  std::vector<std::vector<float>> gradients;
  for (const std::uint64_t position : {0, 2, 4}) {
    std::ranges::fill(task->gradient(), 0.0F);
    task->accumulate_gradient(position, 1, 7, {});
    gradients.emplace_back(task->gradient().begin(), task->gradient().end());
  }
  for (const std::uint64_t position : {4, 0, 2}) {
    std::ranges::fill(other->gradient(), 0.0F);
    other->accumulate_gradient(position, 1, 7, {});
    EXPECT_TRUE(std::ranges::equal(other->gradient(), gradients[position / 2])) << position;
  }
  EXPECT_NE(gradients[0], gradients[1]);
}

TEST_P(EveryTask, TalliesOfSharesAddUp) {
  const auto task = entry_.make(setup_);
  const Tally whole = task->evaluate(Split::test, {});
  Tally sum(whole.size());
  for (int rank = 0; rank < 3; ++rank) {
    const Tally part = task->evaluate(Split::test, {rank, 3});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  const double count = quick_.losses > 0 ? 23 * quick_.losses : sum[1];
  EXPECT_EQ(whole[1], count);
  EXPECT_NEAR(sum[0], whole[0], 1e-5 * whole[0]);
  for (std::size_t i = 1; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 1e-9 * std::abs(whole[i]));
  const Metrics all = task->metrics(whole);
  EXPECT_EQ(all.values.size(), entry_.metrics.size());
  EXPECT_NEAR(all.value("loss"), whole[0] / count, 1e-12);
  EXPECT_TRUE(task->metrics(Tally(whole.size())).values.empty()) << "of no example";
  if (quick_.losses > 0) {
    EXPECT_EQ(task->evaluate(Split::train, {})[1], 60 * quick_.losses);
  }
}

TEST_P(EveryTask, ASampleTellsDataApart) {
  setup_.data.train_size = 80;
  const auto task = entry_.make(setup_), same = entry_.make(setup_);
  std::vector<std::uint64_t> hashes{task->sample_hash(Split::train), task->sample_hash(Split::test)};
  EXPECT_EQ(hashes[0], same->sample_hash(Split::train));
  EXPECT_EQ(hashes[1], same->sample_hash(Split::test));
  setup_.data.train_size = 79;
  setup_.data.test_size = 22;
  const auto fewer = entry_.make(setup_);
  hashes.insert(hashes.end(), {fewer->sample_hash(Split::train), fewer->sample_hash(Split::test)});
  setup_.data.data_seed = 2;
  const auto others = entry_.make(setup_);
  hashes.insert(hashes.end(), {others->sample_hash(Split::train), others->sample_hash(Split::test)});
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

TEST_P(EveryTask, CountsWhatItTrains) {
  if (quick_.losses == 0) GTEST_SKIP() << "its own test counts them";
  const auto task = entry_.make(setup_);
  const double first = task->accumulate_gradient(0, 1, 1, {}), second = task->accumulate_gradient(1, 1, 1, {});
  EXPECT_NEAR(task->metrics(task->trained()).value("loss"), (first + second) / 2, 1e-12);
  EXPECT_EQ(task->trained()[1], 20 * quick_.losses);
}

TEST_P(EveryTask, EvaluatesWithoutTrainingData) {
  setup_.batch = 0;
  setup_.data.train_size = 99'999'999;  // more than there are
  const double counted = entry_.make(setup_)->evaluate(Split::test, {})[1];
  EXPECT_GE(counted, 23);
  if (quick_.losses > 0) {
    EXPECT_EQ(counted, 23 * quick_.losses);
  }
}

TEST_P(EveryTask, RefusesWhatDoesNotFit) {
  TaskSetup some = setup_;
  EXPECT_NE(message_of([&] { model("lenett"); }).find("unknown model `lenett`"), std::string::npos);
  some.share = {0, 7};
  EXPECT_NE(message_of([&] { entry_.make(some); }).find("cannot fill one global batch"), std::string::npos);
}

TEST_P(EveryTask, KnowsItsModelsAndData) {
  for (const std::string_view name : entry_.model_names()) {
    const ModelChoice choice = model(name);
    EXPECT_EQ(choice.name, name);
    EXPECT_GT(choice.defaults.lr, 0);
  }
  setup_.data.data = entry_.data_names().front();
  EXPECT_GT(entry_.make(setup_)->examples(Split::train), 0U);
}

// A rank with its own examples sees all of them and no others. Epochs are as long as without a partition.
TEST(Partitioned, ImagesAreThoseOfTheHand) {
  const TaskEntry& entry = task_table().require("task", "classify");
  TaskSetup setup{.model = entry.read_model(parse_expression("model", "logreg")),
                  .data = {.train_size = 60, .test_size = 23}};
  setup.batch = 10;
  setup.share = {1, 3};
  EXPECT_EQ(entry.make(setup)->data_report(0), "");
  setup.partition = partition_table().read("partition", "iid");
  EXPECT_EQ(entry.make(setup)->data_report(0), "");
  setup.partition = partition_table().read("partition", "shards(1)");
  const auto task = entry.make(setup);
  EXPECT_EQ(task->epochs().each, 2U);
  EXPECT_NE(task->data_report(1).find("\n    3        20 "), std::string::npos) << task->data_report(1);
  const auto data = open_dataset(setup.data, Split::train);
  Labels labels;
  for (int label = 0; label < 10; ++label) labels.names.push_back(std::to_string(label));
  for (std::size_t i = 0; i < 60; ++i) labels.classes.push_back(static_cast<std::uint32_t>(data->label(i)));
  const Partition partition(setup.partition, labels, {3, setup.seed});
  Loader loader(*data, {.order = {setup.seed, 1, 3, 10}, .own = partition.hand(1)});
  const auto model =
      make_image_model(image_model_table().read("model", "logreg"), data->shape(), data->classes(), setup.seed);
  for (const std::uint64_t position : {4, 0, 2}) {
    const Batch batch = loader.at(position);
    EXPECT_LE(std::ranges::max(batch.labels) - std::ranges::min(batch.labels), 5) << "neighbours by label";
    EXPECT_EQ(task->accumulate_gradient(position, 1, 7, {}), model->accumulate_gradient(batch, 1, 7, {}));
  }
  EXPECT_TRUE(std::ranges::equal(task->gradient(), model->gradient()));
}

TEST(FindTask, ByModelAndData) {
  const auto found = [](std::string_view model, std::string_view data, std::string_view name = "auto") {
    return find_task(name, parse_expression("model", model), data).name;
  };
  EXPECT_EQ(found("lenet", "auto"), "classify");
  EXPECT_EQ(found("gpt-mini(layers=2)", "auto"), "language");
  EXPECT_EQ(found("lenet", "auto", "regress"), "regress");
  EXPECT_EQ(found("gpt-mni", "text"), "language");
  EXPECT_EQ(found("bert-mini", "text"), "masked");
  EXPECT_EQ(found("transformer-tiny", "auto"), "translate");
  EXPECT_EQ(found("logreg", "auto"), "classify");
  EXPECT_EQ(found("logreg", "libsvm"), "classify-rows");
  EXPECT_EQ(found("linreg(l2=1)", "auto"), "regress-rows");
  const auto refusal = [&](auto... said) { return message_of([&] { found(said...); }); };
  EXPECT_NE(refusal("gpt-mni", "auto").find("unknown model `gpt-mni`; did you mean `gpt-mini`?"), std::string::npos);
  const std::string other = refusal("lenet", "libsvm");
  EXPECT_EQ(other, "data libsvm: is not for the model lenet; it goes with logreg, svm, linreg");
  EXPECT_NE(refusal("gpt-mini", "digits").find("is not for the model gpt-mini; it goes with "), std::string::npos);
  EXPECT_EQ(found("lenet", "digts"), "classify") << "which then refuses the data";
  EXPECT_EQ(refusal("gpt-mini", "digits", "language"),
            "data digits: is not for the task language, which takes made-text, text");
  EXPECT_NE(refusal("lenet", "auto", "clasify").find("did you mean `classify`?"), std::string::npos);
}

TEST(DefaultModel, IsTheFirstOfTheTask) {
  EXPECT_EQ(default_model("auto", "auto"), "lenet");
  EXPECT_EQ(default_model("auto", "digts"), "lenet") << "which then refuses the data";
  for (const TaskEntry& task : task_table()) {
    EXPECT_EQ(default_model(task.name, "auto"), task.model_names().front());
    for (const std::string_view data : task.data_names()) {
      const std::string_view model = default_model("auto", data);
      EXPECT_NO_THROW(find_task("auto", parse_expression("model", model), data)) << data;
    }
  }
  EXPECT_NE(message_of([] { default_model("langage", "auto"); }).find("did you mean `language`?"), std::string::npos);
}

TEST(ImageTask, HasTheBatchesOfTheLoader) {
  const TaskEntry& entry = task_table().require("task", "classify");
  TaskSetup setup{.model = entry.read_model(parse_expression("model", "logreg")),
                  .data = {.train_size = 60, .test_size = 23}};
  setup.batch = 10;
  setup.share = {1, 2};
  const auto task = entry.make(setup);
  const auto data = open_dataset(setup.data, Split::train);
  Loader loader(*data, {{setup.seed, 1, 2, 10}});
  const auto model =
      make_image_model(image_model_table().read("model", "logreg"), data->shape(), data->classes(), setup.seed);
  ASSERT_TRUE(std::ranges::equal(task->parameters(), model->parameters()));
  for (const std::uint64_t position : {4, 0, 2}) {
    EXPECT_EQ(task->accumulate_gradient(position, 1, 7, {}), model->accumulate_gradient(loader.at(position), 1, 7, {}));
  }
  EXPECT_TRUE(std::ranges::equal(task->gradient(), model->gradient()));
}

}  // namespace
}  // namespace sotto
