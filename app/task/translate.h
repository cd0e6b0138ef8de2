#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/task/table.h"

namespace sotto {

// The task of translating sentences. A tally counts the predicted tokens.
inline constexpr std::array translate_metrics{
    falling_metric("loss", "loss",
                   "mean cross entropy of a token of the translation, in nats, without label smoothing"),
    falling_metric("perplexity", "ppl", "exp(loss)"),
    rising_metric(
        "bleu", "BLEU",
        "score of the translations that beam search finds, from 0 to 100, as sacrebleu computes it; of test data "
        "only"),
};

std::unique_ptr<Task> make_translate(const TaskSetup& setup);

// The words of a text as sacrebleu's tokenisation "13a" makes them (NIST's mteval-v13a, for UTF-8).
std::vector<std::string> words_13a(std::string_view text);

// The counts from which BLEU is computed (Papineni et al., ACL 2002): for n from 1 to 4, how many n-grams of the output
// are in the reference (an n-gram counts at most as often as the reference has it); for n from 1 to 4, how many n-grams
// the output has; the number of words of the output; that of the reference. Counts of several sentences are added.
using BleuCounts = std::array<double, 10>;
BleuCounts bleu_counts(std::string_view output, std::string_view reference);

// From 0 to 100, the same as sacrebleu's with its usual settings (13a, one reference, smoothing `exp`).
double bleu_score(std::span<const double> counts);

}  // namespace sotto
