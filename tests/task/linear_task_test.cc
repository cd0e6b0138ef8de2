// Exact answers of the tasks over rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/task/table.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

class LinearTask : public testing::Test {
 protected:
  std::unique_ptr<Task> task(std::string_view name, std::string_view model, std::string_view train,
                             std::string_view test, std::size_t batch = 2) {
    write_file_atomic(folder_ / "train.libsvm", train);
    write_file_atomic(folder_ / "test.libsvm", test);
    const TaskEntry& entry = task_table().require("task", name);
    TaskSetup setup{.model = entry.read_model(parse_expression("model", model)),
                    .data = {.data = "libsvm", .data_dir = folder_.path().string()}};
    setup.batch = batch;
    return entry.make(setup);
  }
  test::TemporaryFolder folder_;
};

// With one shard for each of two ranks, each rank sees one class only. Labels that are numbers are sorted and cut.
TEST_F(LinearTask, DealsRowsByLabel) {
  write_file_atomic(folder_ / "train.libsvm", "5 1:1\n9 1:1\n9 2:1\n5 2:1\n9 3:1\n5 3:1\n");
  write_file_atomic(folder_ / "test.libsvm", "5 1:1\n9 1:1\n");
  for (const auto& [name, model] : {std::pair{"classify-rows", "logreg"}, std::pair{"regress-rows", "linreg"}}) {
    const TaskEntry& entry = task_table().require("task", name);
    TaskSetup setup{.model = entry.read_model(parse_expression("model", model)),
                    .data = {.data = "libsvm", .data_dir = folder_.path().string()}};
    setup.batch = 3;
    setup.partition = partition_table().read("partition", "shards(1)");
    std::vector<float> signs;
    for (const int rank : {0, 1}) {
      setup.share = {rank, 2};
      const auto made = entry.make(setup);
      EXPECT_EQ(made->epochs().each, 1U);
      made->accumulate_gradient(0, 1, 0, {});
      // Each label has one row with each feature, and the three rows of a batch have the same label.
      EXPECT_EQ(made->gradient()[0], made->gradient()[1]);
      EXPECT_EQ(made->gradient()[0], made->gradient()[2]);
      signs.push_back(made->gradient()[0]);
      EXPECT_NE(made->data_report(0).find("a rank has 3 examples, of 1 of the 2 labels"), std::string::npos);
    }
    EXPECT_NE(signs[0], signs[1]);
    setup.partition = partition_table().read("partition", "dirichlet(1000)");
    const std::string refusal = test::message_of([&] { entry.make(setup); });
    EXPECT_EQ(refusal.find("the labels are numbers") != std::string::npos, entry.name == "regress-rows") << refusal;
  }
}

// The hash must change if only the last row differs.
TEST_F(LinearTask, ASampleIsOfTheWholeSet) {
  std::string rows;
  for (int i = 0; i < 2000; ++i) rows += i % 2 == 0 ? "1 1:1\n" : "2 1:1\n";
  const auto hash = [&](const std::string& last) {
    return task("classify-rows", "svm", rows + last, "1 1:1\n2 1:1\n")->sample_hash(Split::train);
  };
  EXPECT_EQ(hash("1 1:1\n"), hash("1 1:1\n"));
  EXPECT_NE(hash("1 1:1\n"), hash("1 1:2\n"));
}

// With weight 1 and bias 0, the output equals the only feature.
TEST_F(LinearTask, MeasuresTwoClasses) {
  const auto made =
      task("classify-rows", "logreg", "5 1:1\n9 1:1\n", "9 1:3\n9 1:1\n5 1:1\n9 1:-2\n5 1:-1\n5 1:-3\n5 1:2\n");
  made->parameters()[0] = 1;
  const Metrics measured = made->metrics(made->evaluate(Split::test, {}));
  // Outputs 3, 1, 1, 2 are taken for positive; the first two are right. The positive example with -2 is missed.
  EXPECT_NEAR(measured.value("accuracy"), 4.0 / 7, 1e-12);
  EXPECT_NEAR(measured.value("precision"), 2.0 / 4, 1e-12);
  EXPECT_NEAR(measured.value("recall"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(measured.value("f1"), 4.0 / 7, 1e-12);
  // Of 12 pairs, 3 beats all four, 1 beats two and ties with one, and -2 beats one.
  EXPECT_NEAR(measured.value("auc"), (4 + 2.5 + 1) / 12, 1e-12);
  double loss = 0;
  for (const double margin : {3, 1, -1, -2, 1, 3, -2}) loss += std::log1p(std::exp(-margin));
  EXPECT_NEAR(measured.value("loss"), loss / 7, 1e-6);
  EXPECT_NEAR(made->loss_of_guessing(), std::log(2), 1e-12);
}

TEST_F(LinearTask, AucHoldsWithoutPairsAndWithNaN) {
  const auto one = task("classify-rows", "svm", "1 1:1\n2 1:1\n", "1 1:3\n1 1:1\n");
  EXPECT_EQ(one->metrics(one->evaluate(Split::test, {})).value("auc"), 0.5);
  const auto broken = task("classify-rows", "svm", "1 1:1\n2 1:1\n", "1 1:3\n2 1:1\n2 1:2\n");
  broken->parameters()[0] = std::nanf("");
  const Metrics measured = broken->metrics(broken->evaluate(Split::test, {}));
  EXPECT_TRUE(std::isnan(measured.value("loss")));
  EXPECT_EQ(measured.value("auc"), 0.5);
}

TEST_F(LinearTask, HingeAndItsGradient) {
  const auto made = task("classify-rows", "svm(l1=0.5, l2=0.25)", "1 1:2\n2 2:4\n", "1 1:1\n");
  made->parameters()[0] = 1;  // outputs 2 and 0 with labels -1 and 1 miss their margins by 3 and 1
  EXPECT_NEAR(made->accumulate_gradient(0, 10, 0, {}), 2, 1e-6);
  const auto gradient = made->gradient();
  EXPECT_NEAR(gradient[0], 10 * (2 / 2.0 + 0.5 + 0.25), 1e-5);
  EXPECT_NEAR(gradient[1], 10 * (-4 / 2.0), 1e-5) << "of a weight of 0";
  EXPECT_NEAR(gradient[made->layout().segments()[1].offset], 0, 1e-6);
  EXPECT_EQ(made->metrics(made->trained()).value("accuracy"), 0) << "an output of 0 is not positive";
  EXPECT_TRUE(std::isnan(made->metrics(made->trained()).value("auc")));
}

TEST_F(LinearTask, Values) {
  const auto made = task("regress-rows", "linreg", "1 1:1\n3 2:1\n", "1 1:1\n3 2:1\n8 3:1\n");
  EXPECT_EQ(made->parameters().size() >= 4, true);
  std::ranges::fill(made->parameters().first(3), 2.0F);
  const Metrics measured = made->metrics(made->evaluate(Split::test, {}));
  EXPECT_NEAR(measured.value("loss"), (1 + 1 + 36) / 3.0, 1e-6);
  EXPECT_NEAR(measured.value("r2"), 1 - 38 / 26.0, 1e-6);
  EXPECT_NEAR(made->loss_of_guessing(), 26 / 3.0, 1e-6);
  EXPECT_NEAR(made->accumulate_gradient(0, 1, 0, {}), 1, 1e-6);
  EXPECT_NEAR(made->gradient()[0], 1, 1e-6);
  EXPECT_NEAR(made->gradient()[1], -1, 1e-6);
}

TEST_F(LinearTask, LabelsFarFromZero) {
  const auto made = task("regress-rows", "linreg", "1 1:1\n1 2:1\n", "1000000 1:1\n1000001 2:1\n1000002 3:1\n");
  made->parameters()[made->layout().segments()[1].offset] = 1000000.5F;
  EXPECT_NEAR(made->metrics(made->evaluate(Split::test, {})).value("r2"), 1 - (0.25 + 0.25 + 2.25) / 2, 1e-9);
  EXPECT_NEAR(made->loss_of_guessing(), 2 / 3.0, 1e-9);
}

TEST_F(LinearTask, RefusesMoreThanTwoLabels) {
  const auto refusal = [&](std::string_view train, std::string_view test) {
    return test::message_of([&] { task("classify-rows", "svm", train, test); });
  };
  const auto has = [](const std::string& text, std::string_view end) { EXPECT_TRUE(text.ends_with(end)) << text; };
  has(refusal("1 1:1\n3 1:1\n2 1:1\n2 1:1\n", "1 1:1\n"),
      "/train.libsvm:2: label 3, and other rows have 1 and 2; two classes are wanted; for labels that are any numbers "
      "there is the task regress-rows");
  has(refusal("1 1:1\n2 1:1\n1 1:1\n2 1:1\n", "1 1:1\n5 1:1\n"),
      "/test.libsvm:2: label 5, and other rows have 1 and 2; two classes are wanted; for labels that are any numbers "
      "there is the task regress-rows");
  has(refusal("1 1:1\n1 1:1\n", "1 1:1\n"),
      "/train.libsvm:1: all rows have the label 1; two classes are wanted; for labels that are any numbers there is "
      "the task regress-rows");
  EXPECT_EQ(refusal("1 1:1\n1 1:1\n", "0 1:1\n"), "") << "the other class is in the test rows";
}

}  // namespace
}  // namespace sotto
