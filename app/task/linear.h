#pragma once

#include <array>
#include <memory>

#include "app/task/table.h"

namespace sotto {

// Two tasks over sparse rows with linear models. The first one predicts which of two classes a row has; the smaller of
// the two labels in the data is the negative class.
inline constexpr std::array two_class_metrics{
    falling_metric("loss", "loss", "mean loss of an example, without penalties"),
    share_metric("accuracy", "accuracy", "share of the examples whose class is found"),
    share_metric("auc", "AUC",
                 "share of the pairs of a positive and a negative example in which the positive one has the larger "
                 "output; 0.5 without such pairs; of test data only"),
    share_metric("precision", "precision",
                 "share of the examples found positive that are positive; 0 if none is found"),
    share_metric("recall", "recall", "share of the positive examples that are found; 0 if there are none"),
    share_metric("f1", "F1", "harmonic mean of precision and recall"),
};
std::unique_ptr<Task> make_two_class(const TaskSetup& setup);

// The second one predicts the label as a number.
inline constexpr std::array value_metrics{
    falling_metric("loss", "loss", "mean squared error of an example"),
    rising_metric("r2", "R2", "share of the labels' variance that the outputs explain"),
};
std::unique_ptr<Task> make_value(const TaskSetup& setup);

}  // namespace sotto
