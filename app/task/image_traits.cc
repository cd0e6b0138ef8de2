#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/task/image_task.h"

namespace sotto {
namespace {

// The number of classes ranked above the right one. Among equal logits the first ranks higher; NaN ranks highest.
std::int64_t better_classes(std::span<const float> logits, std::int64_t label) {
  const float right = logits[static_cast<std::size_t>(label)];
  std::int64_t better = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(logits.size()); ++i) {
    const float other = logits[static_cast<std::size_t>(i)];
    if (i < label) better += !(other < right);
    if (i > label) better += !(other <= right);
  }
  return better;
}

// The sums are the examples whose class is the likeliest, and those whose class is among the five likeliest.
void add_right(std::span<const float> outputs, const Batch& batch, std::span<double> sums) {
  const std::size_t classes = outputs.size() / batch.count();
  for (std::size_t i = 0; i < batch.count(); ++i) {
    const std::int64_t better = better_classes(outputs.subspan(i * classes, classes), batch.labels[i]);
    sums[0] += better < 1;
    sums[1] += better < 5;
  }
}

std::vector<double> shares_right(const Tally& tally) {
  const double count = tally.at(1);
  return {tally[0] / count, tally.at(2) / count, tally.at(3) / count};
}

double loss_of_equal_logits(const Dataset& data) {
  return std::log(static_cast<double>(std::max<std::int64_t>(2, data.classes())));
}

// Errors of labels such as 0 .. 9 are larger than errors of probabilities, and so are the gradients.
constexpr double rate = 0.02;

// The sums are the labels and their squares.
void add_labels(std::span<const float> /*outputs*/, const Batch& batch, std::span<double> sums) {
  for (const std::int64_t label : batch.labels) {
    const auto value = static_cast<double>(label);
    sums[0] += value;
    sums[1] += value * value;
  }
}

std::vector<double> loss_and_r2(const Tally& tally) {
  return {tally.at(0) / tally.at(1), r2_of(tally[0], tally[1], tally.at(2), tally.at(3))};
}

// The variance of the labels, the loss of their mean.
double variance_of_labels(const Dataset& data) {
  std::vector<float> image(data.shape().size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::int64_t label = 0;
    data.read(i, image, label);
    sum += static_cast<double>(label);
    squares += static_cast<double>(label) * static_cast<double>(label);
  }
  const auto count = static_cast<double>(data.size());
  return squares_around_mean(count, sum, squares) / count;
}

}  // namespace

std::unique_ptr<Task> make_classify(const TaskSetup& setup) {
  return make_image_task(setup, {.metrics = classify_metrics,
                                 .loss = Loss::cross_entropy,
                                 .outputs = [](const Dataset& data) { return data.classes(); },
                                 .sums = 2,
                                 .add = add_right,
                                 .values = shares_right,
                                 .loss_of_guessing = loss_of_equal_logits});
}

std::string regress_models() {
  return fmt::format("  the models of classify, with learning rates {} times as large\n", rate);
}

ModelChoice read_regress_model(const Expression& expression) { return read_image_model(expression, rate); }

std::unique_ptr<Task> make_regress(const TaskSetup& setup) {
  return make_image_task(setup, {.metrics = regress_metrics,
                                 .loss = Loss::squared_error,
                                 .outputs = [](const Dataset&) { return std::int64_t{1}; },
                                 .sums = 2,
                                 .add = add_labels,
                                 .values = loss_and_r2,
                                 .loss_of_guessing = variance_of_labels});
}

}  // namespace sotto
