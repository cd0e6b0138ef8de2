#pragma once

#include <torch/nn/modules/embedding.h>

#include <memory>
#include <vector>

#include "app/model/network.h"
#include "app/model/translation_model.h"

namespace sotto {

struct EncoderLayer;
struct DecoderLayer;

// The Transformer (Vaswani et al., NIPS 2017): norms after each addition, sines as positions, one table of embeddings
// for source, target and the last layer. Named and laid out as Hugging Face's MarianMTModel, without its parts that are
// not trained.
class Transformer final : public Network {
 public:
  Transformer(const TransformerOptions& options, std::int64_t vocabulary);

  // A source as the decoder sees it: (count, length, width), and which places are not pads.
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
  std::vector<std::shared_ptr<EncoderLayer>> encoder_;
  std::vector<std::shared_ptr<DecoderLayer>> decoder_;
};

// The likeliest translation of each sentence that beam search finds, without marks, in evaluation mode. Hypotheses are
// compared by log probability / ((5 + length) / 6)^penalty (Wu et al., 2016).
std::vector<std::vector<std::int64_t>> beam_search(Transformer& network, const at::Tensor& source);

}  // namespace sotto
