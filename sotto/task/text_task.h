#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/model/language_model.h"
#include "sotto/task/table.h"

namespace sotto {

// Examples as a model gets them: TokenBatch, owned.
struct TextBatch {
  std::vector<std::int64_t> tokens, wanted, places;
};

// What one task over texts does in its own way. Such tasks share the data sets, the way in which a text is cut into
// examples, and all that make_text_task() does. An example is a piece of the text, as long as the model's context; in
// each epoch the text is cut elsewhere.
struct TextTraits {
  std::span<const Metric> metrics;  // the first one is the goal
  const Table<LanguageModelEntry>& (*models)();
  std::int64_t marks = 0;  // so many tokens the model has beside those of the text
  // Adds an example to the batch. `piece` has the token after the example, too; `first_mark` is the number of the first
  // mark. In training `random` depends on the seed, the epoch and the example, in evaluations on the example alone.
  void (*add)(std::span<const std::uint16_t> piece, std::int64_t first_mark, Philox random, TextBatch& batch);
  // The values of the metrics, from the tally of at least one example: the sum of the losses, the number of predicted
  // tokens, and the number of those that were right.
  std::vector<double> (*values)(const Tally& tally);
};

// ConfigError or FileError for a model, data or share that cannot be used.
std::unique_ptr<Task> make_text_task(const TaskSetup& setup, const TextTraits& traits);

// A line for each model, and their options, for help.
std::string text_models(const Table<LanguageModelEntry>& models);
// ConfigError, with a caret, for an unknown model or wrong options.
ModelChoice read_text_model(const Table<LanguageModelEntry>& models, const Sentence& sentence);

}  // namespace sotto
