#include "app/task/regress.h"

#include <fmt/format.h>

#include "app/task/image_task.h"

namespace sotto {
namespace {

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

double squares_around_mean(double count, double sum, double squares) {
  const double around = squares - sum * sum / count;
  return around > 1e-12 * squares ? around : 0;  // the rest is rounding
}

double r2_of(double errors, double count, double sum, double squares) {
  const double spread = squares_around_mean(count, sum, squares);
  if (spread == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / spread;
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
