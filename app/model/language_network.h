#pragma once

#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "app/model/network.h"
#include "app/model/translation_model.h"
#include "sotto/core/options.h"

namespace sotto {

// Base class of the networks of language models.
class LanguageNetwork : public Network {
 public:
  virtual std::int64_t context() const = 0;
  // (count, length) of 64-bit tokens -> (count, length, width): the state at each place. REQUIRES length <= context().
  virtual at::Tensor forward(const at::Tensor& tokens, std::uint64_t random) = 0;
  // (places, width) -> (places, vocabulary): at each place, the logits of the token to predict.
  virtual at::Tensor logits(const at::Tensor& states) = 0;
};

struct GptOptions {
  std::int64_t layers = 12, heads = 12, width = 768, context = 1024;
  double dropout = 0;
  void visit(OptionVisitor& v) {
    visit(v, [] {});
  }
  std::string problem() const;

 protected:
  // Calls `inner` after the width, to visit one more option there.
  template <class Inner>
  void visit(OptionVisitor& v, const Inner& inner) {
    v.option("layers", layers, "blocks of attention and two dense layers", Bounds{1, 1000});
    v.option("heads", heads, "heads of an attention; they share the width equally", Bounds{1, 1000});
    v.option("width", width, "numbers for each token", Bounds{1, 65536});
    inner();
    v.option("context", context, "tokens that are seen at once", Bounds{1, 65536});
    v.option("dropout", dropout, "share that is dropped of embeddings, and of what each layer adds",
             Bounds{0, 1, false, true});
  }
};
std::shared_ptr<LanguageNetwork> make_gpt(const GptOptions& options, std::int64_t vocabulary);

struct LstmOptions {
  std::int64_t layers = 2, width = 200, context = 128;
  double dropout = 0;
  void visit(OptionVisitor& v) {
    v.option("layers", layers, "recurrent layers, one above the other", Bounds{1, 100});
    v.option("width", width, "numbers for each token, and units of each layer", Bounds{1, 65536});
    v.option("context", context, "tokens that are seen at once", Bounds{1, 65536});
    v.option("dropout", dropout, "share that is dropped of what each layer gets, and of the last one's output",
             Bounds{0, 1, false, true});
  }
};
std::shared_ptr<LanguageNetwork> make_lstm(const LstmOptions& options, std::int64_t vocabulary);

struct BertOptions : GptOptions {
  std::int64_t inner = 3072;
  BertOptions() {
    context = 512;
    dropout = 0.1;
  }
  void visit(OptionVisitor& v) {
    GptOptions::visit(v, [&] { v.option("inner", inner, "hidden units of the dense layers", Bounds{1, 1e6}); });
  }
};
std::shared_ptr<LanguageNetwork> make_bert(const BertOptions& options, std::int64_t vocabulary);

template <bool decodes>
struct TransformerLayer;

// The Transformer (Vaswani et al., NIPS 2017): norms after each addition, sines as positions, one table of embeddings
// for source, target and the last layer. Named and laid out as the trained parts of Hugging Face's MarianMTModel.
class Transformer final : public Network {
 public:
  Transformer(const TransformerOptions& options, std::int64_t vocabulary);

  // A source as the decoder sees it. `states`: (count, length, width); `seen`: which places are not pads.
  struct Memory {
    at::Tensor states, seen;
  };
  Memory encode(const at::Tensor& source, Dropouts& drop);
  // (count, length) tokens -> (count, length, width)
  at::Tensor decode(const at::Tensor& target, const Memory& memory, Dropouts& drop);
  at::Tensor logits(const at::Tensor& states);  // (.., width) -> (.., vocabulary)

  InitialWeight initial(std::string_view layer, const at::Tensor& weight) const override;
  const TransformerOptions& options() const { return options_; }

 private:
  at::Tensor embed(const at::Tensor& tokens, Dropouts& drop);

  TransformerOptions options_;
  at::Tensor positions_;  // (context, width)
  torch::nn::Embedding shared_ = nullptr;
  std::vector<std::shared_ptr<TransformerLayer<false>>> encoder_;
  std::vector<std::shared_ptr<TransformerLayer<true>>> decoder_;
};

// The likeliest translation of each sentence that beam search finds, without marks, in evaluation mode. Hypotheses are
// compared by log probability / ((5 + length) / 6)^penalty (Wu et al., 2016).
std::vector<std::vector<std::int64_t>> beam_search(Transformer& network, const at::Tensor& source);

}  // namespace sotto
