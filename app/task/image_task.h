#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/model/image_model.h"
#include "app/task/table.h"

namespace sotto {

// The parts in which tasks over labelled images differ. They share the data sets, the table of models, and everything
// else in make_image_task().
struct ImageTraits {
  std::span<const Metric> metrics;
  Loss loss;
  std::int64_t (*outputs)(const Dataset& data);  // of the model, for each example
  // A tally is the sum of the losses, the number of examples, and `sums` more numbers. add() adds a batch to these;
  // `outputs` holds one example after the other.
  std::size_t sums;
  void (*add)(std::span<const float> outputs, const Batch& batch, std::span<double> sums);
  // The values of the metrics, from the tally of at least one example.
  std::vector<double> (*values)(const Tally& tally);
  double (*loss_of_guessing)(const Dataset& data);  // see Task
};

// ConfigError or FileError for a model, data or share that cannot be used.
std::unique_ptr<Task> make_image_task(const TaskSetup& setup, const ImageTraits& traits);

// A line for each model, and their options, for help.
std::string image_models();
// ConfigError, with a caret, for an unknown model or wrong options. `rate` scales the default learning rate of the
// model, which is meant for classification.
ModelChoice read_image_model(const Expression& expression, double rate = 1);

// The task of classifying labelled images; the loss is cross entropy.
inline constexpr std::array classify_metrics{
    falling_metric("loss", "loss", "mean cross entropy of an example, in nats"),
    share_metric("accuracy", "accuracy", "share of the examples whose class is found"),
    share_metric("top5", "top5", "share of the examples whose class is among the five likeliest"),
};

std::unique_ptr<Task> make_classify(const TaskSetup& setup);

// The task of predicting the label of an image as a number. The model has one output; the loss is its squared error.
inline constexpr std::array regress_metrics{
    falling_metric("loss", "loss", "mean squared error of an example"),
    rising_metric("r2", "R2", "share of the labels' variance that the predictions explain"),
};

std::string regress_models();
ModelChoice read_regress_model(const Expression& expression);
std::unique_ptr<Task> make_regress(const TaskSetup& setup);

}  // namespace sotto
