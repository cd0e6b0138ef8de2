#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "app/model/model.h"
#include "sotto/core/layout.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

// Pieces of text, borrowed, and the tokens that a model has to predict from them.
struct TokenBatch {
  std::span<const std::int64_t> tokens;  // one piece after the other, each of `length`
  std::size_t length = 1;
  std::span<const std::int64_t> wanted;  // the tokens to predict
  std::span<const std::int64_t>
      places{};  // for each of them, the index in `tokens` where it is predicted; empty: everywhere
  std::size_t count() const { return tokens.size() / length; }
};

// Sums over the predicted tokens of some pieces.
struct TokenSums {
  double loss = 0;   // the cross entropies, in nats
  double right = 0;  // predicted tokens that were the likeliest
};

// A model that predicts tokens of a text: at each place the next token from those so far, or hidden tokens from all
// others. Abstract so that tasks need no header of LibTorch.
class LanguageModel : public Model {
 public:
  virtual std::size_t context() const = 0;  // the longest piece

  // gradient() += scale * d(mean loss of the predicted tokens)/d(parameters). Dropout masks are a pure function of
  // `random`. ConfigError when nothing is predicted.
  virtual TokenSums accumulate_gradient(const TokenBatch& batch, float scale, std::uint64_t random,
                                        const SegmentCalls& calls) = 0;
  // In evaluation mode, without gradients.
  virtual TokenSums evaluate(const TokenBatch& batch) = 0;
};

class LanguageNetwork;  // the torch side: app/model/language_network.h

// A line of the table of language models.
struct LanguageModelEntry {
  std::string_view name;
  std::string_view summary;  // one line, with its parameter count
  double default_lr;         // of adamw
  AnyOptions (*options)();
  // ConfigError if the options do not fit.
  std::shared_ptr<LanguageNetwork> (*make)(const AnyOptions& options, std::int64_t vocabulary);
};
const Table<LanguageModelEntry>& language_model_table();  // models that predict the next token
const Table<LanguageModelEntry>& masked_model_table();    // models that predict hidden tokens

using LanguageModelSpec = Spec<LanguageModelEntry>;

// Makes a model for tokens below `vocabulary`. The initial parameters depend on `seed` alone. ConfigError, about the
// option `model`, if the options do not fit.
std::unique_ptr<LanguageModel> make_language_model(const LanguageModelSpec& spec, std::int64_t vocabulary,
                                                   std::uint64_t seed);

}  // namespace sotto
