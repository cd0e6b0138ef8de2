#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/model/language_model.h"
#include "app/task/table.h"
#include "sotto/core/random.h"

namespace sotto {

// An example of a text, borrowed, with the token after it.
struct TextPiece {
  std::span<const std::uint16_t> tokens;
  std::int64_t vocabulary = 256;  // of the text; marks of the model are the tokens from there on
  double bytes = 0;               // of the text that all tokens but the first stand for
};

// Examples as a model gets them: TokenBatch, owned.
struct TextBatch {
  std::vector<std::int64_t> tokens, wanted, places;
  double bytes = 0;  // the number of bytes that `wanted` stands for, or 0 if the task does not count them
};

// The parts in which tasks over texts differ. They share the data sets, the way in which a text is cut into examples,
// and all that make_text_task() does. An example is a piece of the text, as long as the model's context; each epoch
// cuts the text at other places.
struct TextTraits {
  std::span<const Metric> metrics;
  const Table<LanguageModelEntry>& (*models)();
  std::int64_t marks = 0;  // how many tokens the model has in addition to the text's
  // Adds an example to the batch. In training `random` depends on the seed, the epoch and the example, in evaluations
  // on the example alone.
  void (*add)(const TextPiece& piece, Philox random, TextBatch& batch);
  // The values of the metrics, from the tally of at least one example: the sum of the losses, the number of predicted
  // tokens, the number of those that were right, and TextBatch::bytes.
  std::vector<double> (*values)(const Tally& tally);
};

// ConfigError or FileError for a model, data or share that cannot be used.
std::unique_ptr<Task> make_text_task(const TaskSetup& setup, const TextTraits& traits);

}  // namespace sotto
