#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <cmath>

#include "app/model/language_network.h"
#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {
namespace {

// A dense layer whose weight has the shape (inputs, outputs), as in GPT-2.
class TransposedLinearImpl final : public torch::nn::Module {
 public:
  TransposedLinearImpl(std::int64_t in, std::int64_t out)
      : weight_(register_parameter("weight", at::empty({in, out}))),
        bias_(register_parameter("bias", at::zeros({out}))) {}
  at::Tensor forward(const at::Tensor& x) {
    return at::addmm(bias_, x.flatten(0, -2), weight_).view({x.size(0), x.size(1), -1});
  }

 private:
  at::Tensor weight_, bias_;
};
TORCH_MODULE(TransposedLinear);

struct GptAttention final : torch::nn::Module {
  explicit GptAttention(const GptOptions& options)
      : heads(options.heads),
        c_attn(register_module("c_attn", TransposedLinear(options.width, 3 * options.width))),
        c_proj(register_module("c_proj", TransposedLinear(options.width, options.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::vector<at::Tensor> parts = through(c_attn, x).chunk(3, 2);
    return through(c_proj, attend(parts[0], parts[1], parts[2], {.heads = heads, .earlier_only = true}));
  }

  std::int64_t heads;
  TransposedLinear c_attn, c_proj;
};

struct GptMlp final : torch::nn::Module {
  explicit GptMlp(std::int64_t width)
      : c_fc(register_module("c_fc", TransposedLinear(width, 4 * width))),
        c_proj(register_module("c_proj", TransposedLinear(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& x) { return through(c_proj, at::gelu(through(c_fc, x), "tanh")); }

  TransposedLinear c_fc, c_proj;
};

struct GptBlock final : torch::nn::Module {
  explicit GptBlock(const GptOptions& options)
      : ln_1(register_module("ln_1", layer_norm(options.width))),
        attn(register_module("attn", std::make_shared<GptAttention>(options))),
        ln_2(register_module("ln_2", layer_norm(options.width))),
        mlp(register_module("mlp", std::make_shared<GptMlp>(options.width))) {}

  at::Tensor forward(const at::Tensor& x, Dropouts& drop) {
    const at::Tensor seen = x + drop(attn->forward(through(ln_1, x)));
    return seen + drop(mlp->forward(through(ln_2, seen)));
  }

  torch::nn::LayerNorm ln_1;
  std::shared_ptr<GptAttention> attn;
  torch::nn::LayerNorm ln_2;
  std::shared_ptr<GptMlp> mlp;
};

// GPT-2 (Radford et al., 2019), named and laid out as Hugging Face's GPT2LMHeadModel. The last layer is the embedding
// of tokens once more. Attention weights are not dropped: the fused kernel would draw from torch's own generator.
class Gpt final : public LanguageNetwork {
 public:
  Gpt(const GptOptions& options, std::int64_t vocabulary) : options_(options) {
    auto body = register_module("transformer", std::make_shared<torch::nn::Module>());
    wte_ = body->register_module("wte", torch::nn::Embedding(vocabulary, options.width));
    wpe_ = body->register_module("wpe", torch::nn::Embedding(options.context, options.width));
    blocks_ = register_layers<GptBlock>(*body, "h", options);
    ln_f_ = body->register_module("ln_f", layer_norm(options.width));
  }

  std::int64_t context() const override { return options_.context; }

  at::Tensor forward(const at::Tensor& tokens, std::uint64_t random) override {
    Dropouts drop{is_training() ? options_.dropout : 0, random};
    at::Tensor x = drop(through(wte_, tokens) + through(wpe_, at::arange(tokens.size(1))));
    for (const auto& block : blocks_) x = block->forward(x, drop);
    return through(ln_f_, x);
  }
  at::Tensor logits(const at::Tensor& states) override { return at::linear(states, wte_->weight); }

  // Scaled so that the sum of all layers' outputs keeps its size, however many layers there are.
  InitialWeight initial(std::string_view layer, const at::Tensor& /*weight*/) const override {
    const double deviation = 0.02;
    const bool adds = layer.ends_with("c_proj");
    return InitialWeight::normal(adds ? deviation / std::sqrt(2 * static_cast<double>(options_.layers)) : deviation);
  }

 private:
  GptOptions options_;
  torch::nn::Embedding wte_ = nullptr, wpe_ = nullptr;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm ln_f_ = nullptr;
};

// Long short-term memory (Hochreiter, Schmidhuber, 1997). Dropout is between the layers, as in Zaremba, Sutskever and
// Vinyals (2014). Every piece of text begins with an empty memory. Named as in PyTorch's word_language_model.
class Lstm final : public LanguageNetwork {
 public:
  Lstm(const LstmOptions& options, std::int64_t vocabulary)
      : options_(options), encoder_(register_module("encoder", torch::nn::Embedding(vocabulary, options.width))) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      layers_.push_back(torch::nn::LSTM(torch::nn::LSTMOptions(options.width, options.width).batch_first(true)));
      register_module("rnn" + std::to_string(i), layers_.back());
    }
    decoder_ = register_module("decoder", torch::nn::Linear(options.width, vocabulary));
  }

  std::int64_t context() const override { return options_.context; }

  at::Tensor forward(const at::Tensor& tokens, std::uint64_t random) override {
    Dropouts drop{is_training() ? options_.dropout : 0, random};
    at::Tensor x = drop(through(encoder_, tokens));
    // Few processors have a kernel for an LSTM in float16, so with float16 it computes in floats.
    std::optional<c10::impl::ExcludeDispatchKeyGuard> in_floats;
    if (at::autocast::is_autocast_enabled(at::kCPU) && at::autocast::get_autocast_dtype(at::kCPU) == at::kHalf) {
      in_floats.emplace(c10::DispatchKey::AutocastCPU);
    }
    for (torch::nn::LSTM& layer : layers_) {
      announce(*layer);
      x = drop(std::get<0>(layer->forward(x)));
    }
    return x;
  }
  at::Tensor logits(const at::Tensor& states) override { return through(decoder_, states); }

  InitialWeight initial(std::string_view layer, const at::Tensor& /*weight*/) const override {
    if (layer == "encoder") return InitialWeight::uniform(0.1);
    return InitialWeight::uniform(1 / std::sqrt(static_cast<double>(options_.width)));
  }

 private:
  LstmOptions options_;
  torch::nn::Embedding encoder_;
  std::vector<torch::nn::LSTM> layers_;
  torch::nn::Linear decoder_ = nullptr;
};

}  // namespace

std::string GptOptions::problem() const {
  return width % heads == 0 ? "" : fmt::format("width {} cannot be shared by {} heads", width, heads);
}

std::shared_ptr<LanguageNetwork> make_gpt(const GptOptions& options, std::int64_t vocabulary) {
  return std::make_shared<Gpt>(options, vocabulary);
}

std::shared_ptr<LanguageNetwork> make_lstm(const LstmOptions& options, std::int64_t vocabulary) {
  return std::make_shared<Lstm>(options, vocabulary);
}

}  // namespace sotto
