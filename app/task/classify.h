#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"

namespace sotto {

// The task of classifying labelled images; the loss is cross entropy.
inline constexpr std::array classify_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean cross entropy of an example, in nats", .rises = false},
    Metric{.name = "accuracy",
           .label = "accuracy",
           .summary = "share of the examples whose class is found",
           .is_share = true},
    Metric{.name = "top5",
           .label = "top5",
           .summary = "share of the examples whose class is among the five likeliest",
           .is_share = true},
};

std::unique_ptr<Task> make_classify(const TaskSetup& setup);

}  // namespace sotto
