#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"

namespace sotto {

// The task of predicting the label of an image as a number. The model has one output; the loss is its squared error.
inline constexpr std::array regress_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean squared error of an example", .rises = false},
    Metric{.name = "r2", .label = "R2", .summary = "share of the labels' variance that the predictions explain"},
};

// The sum of the squared distances of so many numbers from their mean; `sum` and `squares` are theirs.
double squares_around_mean(double count, double sum, double squares);
// R2: 1 - (sum of squared errors) / (sum of squared distances of the labels from their mean). If all labels are the
// same, no share of their variance can be explained: 1 without an error, else 0, as in scikit-learn.
double r2_of(double errors, double count, double sum, double squares);

std::string regress_models();
ModelChoice read_regress_model(const Expression& expression);
std::unique_ptr<Task> make_regress(const TaskSetup& setup);

}  // namespace sotto
