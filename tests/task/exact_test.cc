// Exact answers of each task for models whose outputs are their biases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/task/metric.h"
#include "app/task/table.h"

namespace sotto {
namespace {

const DataOptions made_data{.train_size = 60, .test_size = 40};

// The labels of the test data.
std::vector<std::int64_t> labels() {
  const auto examples = open_dataset(made_data, Split::test);
  std::vector<float> image(examples->shape().size());
  std::vector<std::int64_t> all(examples->size());
  for (std::size_t i = 0; i < all.size(); ++i) examples->read(i, image, all[i]);
  return all;
}

double share_of_labels(auto is_counted) {
  const auto all = labels();
  return static_cast<double>(std::ranges::count_if(all, is_counted)) / static_cast<double>(all.size());
}

std::unique_ptr<Task> named_task(std::string_view name) {
  const TaskEntry& entry = task_table().require("task", name);
  TaskSetup setup{.model = entry.read_model(parse_expression("model", "logreg")), .data = made_data};
  setup.batch = 0;
  return entry.make(setup);
}

// The metrics of a model whose outputs are `biases` for every example of the test data.
Metrics metrics_of(std::string_view task_name, const std::vector<float>& biases) {
  const auto task = named_task(task_name);
  std::ranges::fill(task->parameters(), 0.0F);
  std::ranges::copy(biases, task->parameters().subspan(task->layout().segments()[1].offset).begin());
  return task->metrics(task->evaluate(Split::test, {}));
}

TEST(Classify, CountsTheLikeliestClasses) {
  const Metrics descending = metrics_of("classify", {9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_EQ(descending.value("accuracy"), share_of_labels([](auto label) { return label == 0; }));
  EXPECT_EQ(descending.value("top5"), share_of_labels([](auto label) { return label < 5; }));
  const Metrics ascending = metrics_of("classify", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(ascending.value("accuracy"), share_of_labels([](auto label) { return label == 9; }));
  EXPECT_EQ(ascending.value("top5"), share_of_labels([](auto label) { return label > 4; }));
  double sum = 0, loss = 0;
  for (int k = 0; k < 10; ++k) sum += std::exp(k);
  for (const std::int64_t label : labels()) loss += std::log(sum) - static_cast<double>(label);
  EXPECT_NEAR(ascending.value("loss"), loss / 40, 1e-5);
}

TEST(Classify, PrefersTheFirstOfEqualsNeverNaN) {
  const Metrics ties = metrics_of("classify", std::vector<float>(10, 0.5F));
  EXPECT_EQ(ties.value("accuracy"), share_of_labels([](auto label) { return label == 0; }));
  EXPECT_EQ(ties.value("top5"), share_of_labels([](auto label) { return label < 5; }));
  EXPECT_NEAR(ties.value("loss"), std::log(10), 1e-6);
  const Metrics broken = metrics_of("classify", std::vector<float>(10, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(broken.value("accuracy"), 0);
  EXPECT_TRUE(std::isnan(broken.value("loss")));
}

TEST(Regress, IsTheShareOfVarianceExplained) {
  double sum = 0, squares = 0;
  for (const std::int64_t label : labels()) {
    sum += static_cast<double>(label);
    squares += static_cast<double>(label * label);
  }
  const double mean = sum / 40, variance = squares / 40 - mean * mean;
  const Metrics guess = metrics_of("regress", {static_cast<float>(mean)});
  EXPECT_NEAR(guess.value("loss"), variance, 1e-5);
  EXPECT_NEAR(guess.value("r2"), 0, 1e-6);
  const Metrics two_off = metrics_of("regress", {static_cast<float>(mean) + 2});
  EXPECT_NEAR(two_off.value("loss"), variance + 4, 1e-5);
  EXPECT_NEAR(two_off.value("r2"), -4 / variance, 1e-6);
  EXPECT_NEAR(named_task("regress")->loss_of_guessing(), variance, 1e-9);
  EXPECT_EQ(r2_of(0.5, 1, 0.1, 0.1 * 0.1), 0) << "labels without a variance";
  EXPECT_EQ(r2_of(0, 3, 0.3, 3 * 0.1 * 0.1), 1);
}

}  // namespace
}  // namespace sotto
