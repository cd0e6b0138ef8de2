#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sotto/core/options.h"
#include "sotto/core/segment_calls.h"
#include "sotto/core/table.h"
#include "sotto/model/model.h"

namespace sotto {

// Pieces of text, borrowed: one after the other, each of `length` tokens, of which all but the last are read and all
// but the first predicted.
struct TokenBatch {
  std::span<const std::int64_t> tokens;
  std::size_t length = 2;
  std::size_t count() const { return tokens.size() / length; }
};

// A model that predicts the next token of a text from those before it. Its loss is the cross entropy of a token, in
// nats.
class LanguageModel : public Model {
 public:
  virtual std::size_t context() const = 0;  // the most tokens that it reads: a piece has at most one more

  // gradient() += scale * d(mean loss of the predicted tokens)/d(parameters); returns the mean loss. Dropout masks are
  // a pure function of `random`.
  virtual double accumulate_gradient(const TokenBatch& batch, float scale, std::uint64_t random,
                                     const SegmentCalls& calls) = 0;
  // Returns the sum of the losses of the predicted tokens, in evaluation mode, without gradients.
  virtual double evaluate(const TokenBatch& batch) = 0;
};

class LanguageNetwork;  // the torch side: sotto/model/language_network.h

// A line of the table of language models.
struct LanguageModelEntry {
  std::string_view name;
  std::string_view summary;  // one line, with its parameter count
  std::string_view default_optimiser;
  double default_lr;  // of this optimiser
  AnyOptions (*options)();
  // ConfigError if the options do not fit.
  std::shared_ptr<LanguageNetwork> (*make)(const AnyOptions& options, std::int64_t vocabulary);
};
const Table<LanguageModelEntry>& language_model_table();

using LanguageModelSpec = Spec<LanguageModelEntry>;

// For tokens below `vocabulary`. The initial parameters depend on `seed` alone. ConfigError, about the option `model`,
// when the options do not fit.
std::unique_ptr<LanguageModel> make_language_model(const LanguageModelSpec& spec, std::int64_t vocabulary,
                                                   std::uint64_t seed);

}  // namespace sotto
