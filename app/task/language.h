#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"

namespace sotto {

// The task of predicting each token of a text from those before it. An example is a piece of text, as long as the
// model's context; each epoch cuts the text at other places. A tally counts the tokens.
inline constexpr std::array language_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean cross entropy of a token, in nats", .rises = false},
    Metric{.name = "perplexity", .label = "ppl", .summary = "exp(loss)", .rises = false},
    Metric{.name = "bits",
           .label = "bits/byte",
           .summary = "cross entropy of a byte of the text, in bits, whatever its tokens are",
           .rises = false},
};

std::unique_ptr<Task> make_language(const TaskSetup& setup);

}  // namespace sotto
