#include "app/task/classify.h"

#include <algorithm>
#include <cmath>

#include "app/task/image_task.h"

namespace sotto {
namespace {

// The number of classes ranked above the right one. Of equal logits the first ranks higher, and NaN ranks highest.
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

}  // namespace sotto
