#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"

namespace sotto {

// Two tasks over sparse rows with linear models. The first one predicts which of two classes a row has; the smaller of
// the two labels in the data is the negative class.
inline constexpr std::array two_class_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean loss of an example, without penalties", .rises = false},
    Metric{.name = "accuracy",
           .label = "accuracy",
           .summary = "share of the examples whose class is found",
           .is_share = true},
    Metric{.name = "auc",
           .label = "AUC",
           .summary =
               "share of the pairs of a positive and a negative example in which the positive one has the larger "
               "output; 0.5 without such pairs; of test data only",
           .is_share = true},
    Metric{.name = "precision",
           .label = "precision",
           .summary = "share of the examples found positive that are positive; 0 if none is found",
           .is_share = true},
    Metric{.name = "recall",
           .label = "recall",
           .summary = "share of the positive examples that are found; 0 if there are none",
           .is_share = true},
    Metric{.name = "f1", .label = "F1", .summary = "harmonic mean of precision and recall", .is_share = true},
};
std::unique_ptr<Task> make_two_class(const TaskSetup& setup);

// The second one predicts the label as a number.
inline constexpr std::array value_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean squared error of an example", .rises = false},
    Metric{.name = "r2", .label = "R2", .summary = "share of the labels' variance that the outputs explain"},
};
std::unique_ptr<Task> make_value(const TaskSetup& setup);

}  // namespace sotto
