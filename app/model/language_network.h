#pragma once

#include <cstdint>
#include <memory>

#include "app/model/network.h"
#include "sotto/core/options.h"

namespace sotto {

// Base class of the networks of language models.
class LanguageNetwork : public Network {
 public:
  virtual std::int64_t context() const = 0;
  // (count, length) of 64-bit tokens -> (count, length, width): the state at each place. `length` is at most context().
  virtual at::Tensor forward(const at::Tensor& tokens, std::uint64_t random) = 0;
  // (places, width) -> (places, vocabulary): the logits of the token to predict at each of these places.
  virtual at::Tensor logits(const at::Tensor& states) = 0;
};

struct GptOptions {
  std::int64_t layers = 12, heads = 12, width = 768, context = 1024;
  double dropout = 0;
  void visit(OptionVisitor& v) {
    v.option("layers", layers, "blocks of attention and two dense layers", Bounds{1, 1000});
    v.option("heads", heads, "heads of an attention; they share the width equally", Bounds{1, 1000});
    v.option("width", width, "numbers for each token", Bounds{1, 65536});
    v.option("context", context, "tokens that are seen at once", Bounds{1, 65536});
    v.option("dropout", dropout, "share that is dropped of embeddings, and of what each layer adds",
             Bounds{0, 1, false, true});
  }
  std::string problem() const;
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

struct BertOptions {
  std::int64_t layers = 12, heads = 12, width = 768, inner = 3072, context = 512;
  double dropout = 0.1;
  void visit(OptionVisitor& v) {
    v.option("layers", layers, "blocks of attention and two dense layers", Bounds{1, 1000});
    v.option("heads", heads, "heads of an attention; they share the width equally", Bounds{1, 1000});
    v.option("width", width, "numbers for each token", Bounds{1, 65536});
    v.option("inner", inner, "hidden units of the dense layers", Bounds{1, 1e6});
    v.option("context", context, "tokens that are seen at once", Bounds{1, 65536});
    v.option("dropout", dropout, "share that is dropped of embeddings, and of what each layer adds",
             Bounds{0, 1, false, true});
  }
  std::string problem() const;
};
std::shared_ptr<LanguageNetwork> make_bert(const BertOptions& options, std::int64_t vocabulary);

}  // namespace sotto
