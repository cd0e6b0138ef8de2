#pragma once

#include <array>
#include <memory>
#include <string>

#include "sotto/task/table.h"

namespace sotto {

// The task of predicting the label of an image as a number. The model has one output; the loss is its squared error.
inline constexpr std::array regress_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean squared error of an example", .rises = false},
    Metric{.name = "r2", .label = "R2", .summary = "share of the labels' variance that the predictions explain"},
};

std::string regress_models();
ModelChoice read_regress_model(const Sentence& sentence);
std::unique_ptr<Task> make_regress(const TaskSetup& setup);

}  // namespace sotto
