#pragma once

#include <array>
#include <memory>
#include <string>

#include "app/task/table.h"
#include "app/task/text_task.h"

namespace sotto {

// The task of finding hidden tokens of a text (Devlin et al., NAACL 2019). In each example 15 % of the places are
// chosen, at least one. 80 % of the chosen tokens are replaced by the mark [MASK], 10 % by a random token of the text's
// vocabulary, and 10 % stay; the model has to find the original tokens. [MASK] is the token after the vocabulary's
// last. A tally counts the chosen places. Evaluations always choose the same places.
inline constexpr std::array masked_metrics{
    Metric{.name = "loss", .label = "loss", .summary = "mean cross entropy of a hidden token, in nats", .rises = false},
    Metric{.name = "accuracy",
           .label = "accuracy",
           .summary = "share of the hidden tokens that are found",
           .is_share = true},
    Metric{.name = "perplexity", .label = "ppl", .summary = "exp(loss)", .rises = false},
};

// Adds a piece of a text whose tokens are below `mask` to the batch, with hidden places that `random` chooses.
void hide_tokens(std::span<const std::uint16_t> piece, std::int64_t mask, Philox random, TextBatch& batch);

std::unique_ptr<Task> make_masked(const TaskSetup& setup);

}  // namespace sotto
