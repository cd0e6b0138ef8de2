#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"

namespace sotto {

// The task of translating sentences. A tally counts the predicted tokens.
inline constexpr std::array translate_metrics{
    Metric{.name = "loss",
           .label = "loss",
           .summary = "mean cross entropy of a token of the translation, in nats, without label smoothing",
           .rises = false},
    Metric{.name = "perplexity", .label = "ppl", .summary = "exp(loss)", .rises = false},
    Metric{
        .name = "bleu",
        .label = "BLEU",
        .summary =
            "score of the translations that beam search finds, from 0 to 100, as sacrebleu computes it; of test data "
            "only"},
};

std::unique_ptr<Task> make_translate(const TaskSetup& setup);

}  // namespace sotto
