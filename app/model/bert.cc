#include <torch/nn/modules/embedding.h>

#include "app/model/language_network.h"
#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {
namespace {

torch::nn::LayerNorm bert_norm(std::int64_t width) { return layer_norm(width, 1e-12); }

// A dense layer whose output is added to its input from earlier layers, and the norm of the sum.
struct BertAdds final : torch::nn::Module {
  BertAdds(std::int64_t in, std::int64_t width)
      : dense(register_module("dense", torch::nn::Linear(in, width))),
        norm(register_module("LayerNorm", bert_norm(width))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& there, Dropouts& drop) {
    return through(norm, drop(through(dense, x)) + there);
  }

  torch::nn::Linear dense;
  torch::nn::LayerNorm norm;
};

struct BertLayer final : torch::nn::Module {
  explicit BertLayer(const BertOptions& options) : heads(options.heads) {
    const std::int64_t width = options.width;
    auto attention = register_module("attention", std::make_shared<torch::nn::Module>());
    auto self = attention->register_module("self", std::make_shared<torch::nn::Module>());
    query = self->register_module("query", torch::nn::Linear(width, width));
    key = self->register_module("key", torch::nn::Linear(width, width));
    value = self->register_module("value", torch::nn::Linear(width, width));
    attended = attention->register_module("output", std::make_shared<BertAdds>(width, width));
    auto intermediate = register_module("intermediate", std::make_shared<torch::nn::Module>());
    inner = intermediate->register_module("dense", torch::nn::Linear(width, options.inner));
    output = register_module("output", std::make_shared<BertAdds>(options.inner, width));
  }

  at::Tensor forward(const at::Tensor& x, Dropouts& drop) {
    const at::Tensor queries = through(query, x), keys = through(key, x), values = through(value, x);
    const at::Tensor seen = attended->forward(attend(queries, keys, values, {.heads = heads}), x, drop);
    return output->forward(at::gelu(through(inner, seen)), seen, drop);
  }

  std::int64_t heads;
  torch::nn::Linear query = nullptr, key = nullptr, value = nullptr, inner = nullptr;
  std::shared_ptr<BertAdds> attended, output;
};

// From the state at a place to the logits of its token; the last layer is the embedding of tokens once more.
struct BertHead final : torch::nn::Module {
  BertHead(std::int64_t width, std::int64_t vocabulary) : bias(register_parameter("bias", at::zeros({vocabulary}))) {
    auto transform = register_module("transform", std::make_shared<torch::nn::Module>());
    dense = transform->register_module("dense", torch::nn::Linear(width, width));
    norm = transform->register_module("LayerNorm", bert_norm(width));
  }

  at::Tensor forward(const at::Tensor& states, const at::Tensor& embeddings) {
    const at::Tensor x = through(norm, at::gelu(through(dense, states)));
    announce(*this);
    return at::linear(x, embeddings, bias);
  }

  at::Tensor bias;
  torch::nn::Linear dense = nullptr;
  torch::nn::LayerNorm norm = nullptr;
};

// BERT (Devlin et al., NAACL 2019), named and laid out as Hugging Face's BertForMaskedLM. BERT has two types of tokens;
// here all are of the first. Attention weights are not dropped, as in gpt_lstm.cc.
class Bert final : public LanguageNetwork {
 public:
  Bert(const BertOptions& options, std::int64_t vocabulary) : options_(options) {
    auto body = register_module("bert", std::make_shared<torch::nn::Module>());
    auto embeddings = body->register_module("embeddings", std::make_shared<torch::nn::Module>());
    words_ = embeddings->register_module("word_embeddings", torch::nn::Embedding(vocabulary, options.width));
    places_ = embeddings->register_module("position_embeddings", torch::nn::Embedding(options.context, options.width));
    types_ = embeddings->register_module("token_type_embeddings", torch::nn::Embedding(2, options.width));
    norm_ = embeddings->register_module("LayerNorm", bert_norm(options.width));
    auto encoder = body->register_module("encoder", std::make_shared<torch::nn::Module>());
    layers_ = register_layers<BertLayer>(*encoder, "layer", options);
    auto cls = register_module("cls", std::make_shared<torch::nn::Module>());
    head_ = cls->register_module("predictions", std::make_shared<BertHead>(options.width, vocabulary));
  }

  std::int64_t context() const override { return options_.context; }

  at::Tensor forward(const at::Tensor& tokens, std::uint64_t random) override {
    Dropouts drop{is_training() ? options_.dropout : 0, random};
    const at::Tensor first_type = at::zeros({1}, at::kLong);
    const at::Tensor typed = through(words_, tokens) + through(types_, first_type);
    at::Tensor x = drop(through(norm_, typed + through(places_, at::arange(tokens.size(1)))));
    for (const auto& layer : layers_) x = layer->forward(x, drop);
    return x;
  }
  at::Tensor logits(const at::Tensor& states) override { return head_->forward(states, words_->weight); }

  InitialWeight initial(std::string_view /*layer*/, const at::Tensor& /*weight*/) const override {
    return InitialWeight::normal(0.02);
  }

 private:
  BertOptions options_;
  torch::nn::Embedding words_ = nullptr, places_ = nullptr, types_ = nullptr;
  torch::nn::LayerNorm norm_ = nullptr;
  std::vector<std::shared_ptr<BertLayer>> layers_;
  std::shared_ptr<BertHead> head_;
};

}  // namespace

std::shared_ptr<LanguageNetwork> make_bert(const BertOptions& options, std::int64_t vocabulary) {
  return std::make_shared<Bert>(options, vocabulary);
}

}  // namespace sotto
