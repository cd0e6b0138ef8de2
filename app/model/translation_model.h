#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "app/model/model.h"
#include "sotto/core/layout.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

// Tokens that every vocabulary of sentences has.
inline constexpr std::int64_t pad_token = 0, unknown_token = 1, begin_token = 2, end_token = 3;

// Borrowed sentences, all of the same length: shorter ones are filled up with pad_token.
struct SentenceBatch {
  std::span<const std::int64_t> tokens;
  std::size_t length = 1;
  std::size_t count() const { return tokens.size() / length; }
};

// Sums over the predicted tokens of some sentences: all but pads.
struct TokenLoss {
  double sum = 0;  // of the cross entropies, in nats, without label smoothing
  double tokens = 0;
};

// A model from sentences to sentences. Abstract so that tasks need no header of LibTorch. `source` ends with end_token;
// `target` begins with begin_token and ends with end_token.
class TranslationModel : public Model {
 public:
  virtual std::size_t context() const = 0;  // the longest sentence, with its marks

  // gradient() += scale * d(mean loss of the predicted tokens)/d(parameters), with label smoothing. Dropout masks are a
  // pure function of `random`.
  virtual TokenLoss accumulate_gradient(const SentenceBatch& source, const SentenceBatch& target, float scale,
                                        std::uint64_t random, const SegmentCalls& calls) = 0;
  // In evaluation mode, without gradients.
  virtual TokenLoss evaluate(const SentenceBatch& source, const SentenceBatch& target) = 0;
  // The translation of each sentence, without marks, by beam search.
  virtual std::vector<std::vector<std::int64_t>> translate(const SentenceBatch& source) = 0;
};

struct TransformerOptions {
  std::int64_t layers = 6, heads = 8, width = 512, inner = 2048, context = 256, beam = 4;
  double dropout = 0.1, label_smoothing = 0.1, length_penalty = 0.6;
  void visit(OptionVisitor& v) {
    v.option("layers", layers, "layers of the encoder, and as many of the decoder", Bounds{1, 1000});
    v.option("heads", heads, "heads of an attention; they share the width equally", Bounds{1, 1000});
    v.option("width", width, "numbers for each token, even", Bounds{2, 65536});
    v.option("inner", inner, "hidden units of the dense layers", Bounds{1, 1e6});
    v.option("context", context, "longest sentence in tokens, with its marks", Bounds{4, 65536});
    v.option("dropout", dropout, "share that is dropped of embeddings, and of what each layer adds",
             Bounds{0, 1, false, true});
    v.option("label-smoothing", label_smoothing, "share of the label's weight that all tokens get, in training",
             Bounds{0, 1, false, true});
    v.option("beam", beam, "hypotheses that a translation keeps; 1: greedy", Bounds{1, 100});
    v.option("length-penalty", length_penalty, "exponent of Wu et al. (2016) that favours longer translations",
             Bounds{0, 10});
  }
  std::string problem() const;
};

// A line of the table of translation models.
struct TranslationModelEntry {
  std::string_view name;
  std::string_view summary;  // one line, with its parameter count
  double default_lr;         // of adamw
  AnyOptions (*options)();
  // ConfigError if the options do not fit.
  std::unique_ptr<TranslationModel> (*make)(const AnyOptions& options, std::string_view text, std::int64_t vocabulary,
                                            std::uint64_t seed);
};
const Table<TranslationModelEntry>& translation_model_table();

using TranslationModelSpec = Spec<TranslationModelEntry>;

}  // namespace sotto
