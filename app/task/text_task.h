#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "app/model/language_model.h"
#include "app/task/table.h"
#include "sotto/core/random.h"

namespace sotto {

// An example of a text, borrowed, with the token after it.
struct TextPiece {
  std::span<const std::uint16_t> tokens;
  std::int64_t vocabulary = 256;  // of the text; the model's marks are the tokens from this number on
  double bytes = 0;               // how many bytes all tokens but the first stand for
};

// Examples as a model gets them: TokenBatch, owned.
struct TextBatch {
  std::vector<std::int64_t> tokens, wanted, places;
  double bytes = 0;  // the number of bytes that `wanted` stands for, or 0 if the task does not count them
};

// The parts in which tasks over texts differ. They share the data sets, how a text is cut into examples, and everything
// else in make_text_task(). An example is a piece of the text, as long as the model's context; each epoch cuts the text
// at other places.
struct TextTraits {
  std::span<const Metric> metrics;
  const Table<LanguageModelEntry>& (*models)();
  std::int64_t marks = 0;  // how many tokens the model has in addition to the text's
  // Adds an example to the batch. In training `random` depends on the seed, the epoch and the example, in evaluations
  // on the example alone.
  void (*add)(const TextPiece& piece, Philox random, TextBatch& batch);
  // Computes the metrics. The tally is of at least one example: the sum of losses, the number of predicted tokens, the
  // number of correct ones, and the sum of TextBatch::bytes.
  std::vector<double> (*values)(const Tally& tally);
};

// ConfigError or FileError for a model, data or share that cannot be used.
std::unique_ptr<Task> make_text_task(const TaskSetup& setup, const TextTraits& traits);

// The task of predicting each token of a text from those before it. An example is a piece of text, as long as the
// model's context; each epoch cuts the text at other places. A tally counts the tokens.
inline constexpr std::array language_metrics{
    falling_metric("loss", "loss", "mean cross entropy of a token, in nats"),
    falling_metric("perplexity", "ppl", "exp(loss)"),
    falling_metric("bits", "bits/byte", "cross entropy of a byte of the text, in bits, whatever its tokens are"),
};

std::unique_ptr<Task> make_language(const TaskSetup& setup);

// The task of finding hidden tokens of a text (Devlin et al., NAACL 2019). In each example 15 % of the places are
// chosen, at least one. 80 % of the chosen tokens are replaced by the mark [MASK], 10 % by a random token of the text's
// vocabulary, and 10 % stay; the model has to find the original tokens. [MASK] is the token after the vocabulary's
// last. A tally counts the chosen places. Evaluations always choose the same places.
inline constexpr std::array masked_metrics{
    falling_metric("loss", "loss", "mean cross entropy of a hidden token, in nats"),
    share_metric("accuracy", "accuracy", "share of the hidden tokens that are found"),
    falling_metric("perplexity", "ppl", "exp(loss)"),
};

// Adds a piece of a text whose tokens are below `mask` to the batch, with hidden places that `random` chooses.
void hide_tokens(std::span<const std::uint16_t> piece, std::int64_t mask, Philox random, TextBatch& batch);

std::unique_ptr<Task> make_masked(const TaskSetup& setup);

}  // namespace sotto
