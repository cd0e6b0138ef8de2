#include "app/model/language_network.h"

#include <fmt/format.h>

#include <cmath>

#include "app/model/layers.h"
#include "app/model/network.h"

namespace sotto {

struct HeadsImpl final : torch::nn::Module {
  explicit HeadsImpl(const TransformerOptions& options)
      : heads(options.heads),
        k_proj(register_module("k_proj", torch::nn::Linear(options.width, options.width))),
        v_proj(register_module("v_proj", torch::nn::Linear(options.width, options.width))),
        q_proj(register_module("q_proj", torch::nn::Linear(options.width, options.width))),
        out_proj(register_module("out_proj", torch::nn::Linear(options.width, options.width))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory, Attending how) {
    how.heads = heads;
    const at::Tensor queries = through(q_proj, x), keys = through(k_proj, memory), values = through(v_proj, memory);
    return through(out_proj, attend(queries, keys, values, how));
  }

  std::int64_t heads;
  torch::nn::Linear k_proj, v_proj, q_proj, out_proj;
};
TORCH_MODULE(Heads);

// A layer of the encoder, or of the decoder, which also attends to the encoder's states.
template <bool decodes>
struct TransformerLayer final : torch::nn::Module {
  explicit TransformerLayer(const TransformerOptions& options)
      : self_attn(register_module("self_attn", Heads(options))),
        self_attn_layer_norm(register_module("self_attn_layer_norm", layer_norm(options.width))) {
    if constexpr (decodes) {
      encoder_attn = register_module("encoder_attn", Heads(options));
      encoder_attn_layer_norm = register_module("encoder_attn_layer_norm", layer_norm(options.width));
    }
    fc1 = register_module("fc1", torch::nn::Linear(options.width, options.inner));
    fc2 = register_module("fc2", torch::nn::Linear(options.inner, options.width));
    final_layer_norm = register_module("final_layer_norm", layer_norm(options.width));
  }

  // In the encoder `memory` says which places are seen, and its states are not read.
  at::Tensor forward(at::Tensor x, const Transformer::Memory& memory, Dropouts& drop) {
    const Attending own = decodes ? Attending{.earlier_only = true} : Attending{.seen = memory.seen};
    x = through(self_attn_layer_norm, x + drop(self_attn->forward(x, x, own)));
    if constexpr (decodes) {
      x = through(encoder_attn_layer_norm, x + drop(encoder_attn->forward(x, memory.states, {.seen = memory.seen})));
    }
    return through(final_layer_norm, x + drop(through(fc2, through(fc1, x).relu_())));
  }

  Heads self_attn;
  torch::nn::LayerNorm self_attn_layer_norm;
  Heads encoder_attn = nullptr;
  torch::nn::LayerNorm encoder_attn_layer_norm = nullptr;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  torch::nn::LayerNorm final_layer_norm = nullptr;
};

namespace {

// Half the numbers are sines, half cosines, of wavelengths from 2 pi to 10000 * 2 pi.
at::Tensor sinusoids(std::int64_t places, std::int64_t width) {
  const at::Tensor half = at::arange(width / 2, at::kDouble);
  const at::Tensor angles =
      at::outer(at::arange(places, at::kDouble), at::pow(10000, -2.0 / static_cast<double>(width) * half));
  return at::cat({angles.sin(), angles.cos()}, 1).to(at::kFloat);
}

}  // namespace

Transformer::Transformer(const TransformerOptions& options, std::int64_t vocabulary)
    : options_(options), positions_(sinusoids(options.context, options.width)) {
  auto model = register_module("model", std::make_shared<torch::nn::Module>());
  shared_ = model->register_module("shared", torch::nn::Embedding(vocabulary, options.width));
  const auto part = [&](const char* name) {
    return model->register_module(name, std::make_shared<torch::nn::Module>());
  };
  encoder_ = register_layers<TransformerLayer<false>>(*part("encoder"), "layers", options);
  decoder_ = register_layers<TransformerLayer<true>>(*part("decoder"), "layers", options);
}

at::Tensor Transformer::embed(const at::Tensor& tokens, Dropouts& drop) {
  const at::Tensor embedded = through(shared_, tokens) * std::sqrt(static_cast<double>(options_.width));
  return drop(embedded + positions_.narrow(0, 0, tokens.size(1)));
}

Transformer::Memory Transformer::encode(const at::Tensor& source, Dropouts& drop) {
  Memory memory{.states = {}, .seen = source.ne(pad_token).unsqueeze(1).unsqueeze(1)};
  at::Tensor x = embed(source, drop);
  for (const auto& layer : encoder_) x = layer->forward(x, memory, drop);
  memory.states = x;
  return memory;
}

at::Tensor Transformer::decode(const at::Tensor& target, const Memory& memory, Dropouts& drop) {
  at::Tensor x = embed(target, drop);
  for (const auto& layer : decoder_) x = layer->forward(x, memory, drop);
  return x;
}

at::Tensor Transformer::logits(const at::Tensor& states) { return at::linear(states, shared_->weight); }

// Glorot's uniform weights, as in the authors' code (Tensor2Tensor); embeddings of about unit length.
InitialWeight Transformer::initial(std::string_view layer, const at::Tensor& weight) const {
  if (layer.ends_with("shared")) return InitialWeight::normal(1 / std::sqrt(static_cast<double>(options_.width)));
  return InitialWeight::uniform(std::sqrt(6 / (fan_in(weight) + fan_out(weight))), /*zero_bias=*/true);
}

std::string TransformerOptions::problem() const {
  if (width % heads != 0) return fmt::format("width {} cannot be shared by {} heads", width, heads);
  return width % 2 == 0 ? "" : fmt::format("width {} is not even", width);
}

std::vector<std::vector<std::int64_t>> beam_search(Transformer& network, const at::Tensor& source) {
  constexpr std::int64_t most_more = 50;  // tokens than the source has: Vaswani et al., section 6.1
  const at::NoGradGuard no_grad;
  Dropouts none{0, 0};
  const TransformerOptions& options = network.options();
  const std::int64_t count = source.size(0), beam = options.beam, rows = count * beam;
  const Transformer::Memory once = network.encode(source, none);
  const auto repeat = [&](const at::Tensor& x) { return x.repeat_interleave(beam, 0); };
  Transformer::Memory memory{repeat(once.states), repeat(once.seen)};

  // The longest length of each hypothesis. It depends on its own sentence alone, and not on others of the batch.
  const at::Tensor limits = repeat((source.ne(pad_token).sum(1) + most_more).clamp_max(options.context));
  const auto longest = limits.max().item<std::int64_t>();
  at::Tensor prefixes = at::full({rows, 1}, begin_token, at::kLong);
  at::Tensor scores = at::full({count, beam}, -HUGE_VAL);  // log probabilities; at first one for each sentence
  scores.select(1, 0).zero_();
  at::Tensor ended = at::zeros({rows}, at::kBool);
  at::Tensor lengths = at::zeros({rows}, at::kFloat);
  for (std::int64_t length = 1; length < longest; ++length) {
    const at::Tensor stays = ended.logical_or(limits.le(length));
    if (stays.all().item<bool>()) break;
    const at::Tensor last = network.decode(prefixes, memory, none).select(1, length - 1);
    at::Tensor next = at::log_softmax(network.logits(last), 1);
    const std::int64_t vocabulary = next.size(1);
    // A hypothesis that has ended, or is as long as it may be, is filled up with pads, which cost nothing.
    next.masked_fill_(stays.unsqueeze(1), -HUGE_VAL);
    next.select(1, pad_token).copy_(at::where(stays, 0.0, -HUGE_VAL));
    const auto [best, chosen] = (scores.view({rows, 1}) + next).view({count, beam * vocabulary}).topk(beam, 1);
    const at::Tensor from = (chosen.div(vocabulary, "floor") + at::arange(count).unsqueeze(1) * beam).flatten();
    const at::Tensor token = chosen.remainder(vocabulary).flatten();
    scores = best;
    prefixes = at::cat({prefixes.index_select(0, from), token.unsqueeze(1)}, 1);
    ended = ended.index_select(0, from);
    lengths = lengths.index_select(0, from) + stays.index_select(0, from).logical_not().to(at::kFloat);
    ended = ended.logical_or(token.eq(end_token));
  }
  const at::Tensor penalty = ((lengths + 5) / 6).pow(options.length_penalty).view({count, beam});
  // A hypothesis that has not ended is chosen only if none of its sentence has ended.
  const at::Tensor open = at::where(ended.view({count, beam}), 0.0, -1e9);
  const at::Tensor winners = (scores / penalty + open).argmax(1) + at::arange(count) * beam;
  const at::Tensor texts = prefixes.index_select(0, winners).contiguous();
  std::vector<std::vector<std::int64_t>> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 1; k < texts.size(1); ++k) {
      const auto token = texts.const_data_ptr<std::int64_t>()[i * texts.size(1) + k];
      if (token == end_token || token == pad_token) break;
      result[static_cast<std::size_t>(i)].push_back(token);
    }
  }
  return result;
}

}  // namespace sotto
