#include "app/model/translation_model.h"

#include <fmt/format.h>

#include <array>

#include "app/model/flat_module.h"
#include "app/model/language_network.h"

namespace sotto {
namespace {

at::Tensor tensor_of(const SentenceBatch& batch) {
  return row_of(batch.tokens).view({static_cast<std::int64_t>(batch.count()), static_cast<std::int64_t>(batch.length)});
}

class TransformerModel final : public ModuleModel<TranslationModel> {
 public:
  TransformerModel(std::string name, std::int64_t vocabulary, std::shared_ptr<Transformer> network)
      : ModuleModel(std::move(name), network), vocabulary_(vocabulary), network_(std::move(network)) {}

  std::size_t context() const override { return static_cast<std::size_t>(network_->options().context); }

  TokenLoss accumulate_gradient(const SentenceBatch& source, const SentenceBatch& target, float scale,
                                std::uint64_t random, const SegmentCalls& calls) override {
    check(source, target);
    TokenLoss loss;
    const double smoothing = network_->options().label_smoothing;
    flat_.accumulate_gradient(scale, calls, [&] {
      const auto [logits, wanted] = forward(source, target, {network_->options().dropout, random});
      loss.tokens = wanted.ne(pad_token).sum().item<double>();
      const at::Tensor mean = at::cross_entropy_loss(logits, wanted, {}, at::Reduction::Mean, pad_token, smoothing);
      const at::NoGradGuard no_grad;
      const at::Tensor plain =
          smoothing == 0 ? mean.detach()
                         : at::cross_entropy_loss(logits.detach(), wanted, {}, at::Reduction::Mean, pad_token);
      loss.sum = plain.item<double>() * loss.tokens;
      return mean;
    });
    return loss;
  }

  TokenLoss evaluate(const SentenceBatch& source, const SentenceBatch& target) override {
    check(source, target);
    TokenLoss loss;
    loss.sum = flat_.evaluate([&] {
      const auto [logits, wanted] = forward(source, target, {0, 0});
      loss.tokens = wanted.ne(pad_token).sum().item<double>();
      return at::cross_entropy_loss(logits, wanted, {}, at::Reduction::Sum, pad_token);
    });
    return loss;
  }

  std::vector<std::vector<std::int64_t>> translate(const SentenceBatch& source) override {
    check(source, source);
    network_->eval();
    return in_torch(name(), [&] { return beam_search(*network_, tensor_of(source)); });
  }

 private:
  void check(const SentenceBatch& source, const SentenceBatch& target) const {
    for (const SentenceBatch* batch : {&source, &target}) {
      if (batch->length < 1 || batch->length > context() || batch->tokens.empty() ||
          batch->tokens.size() % batch->length != 0) {
        throw ConfigError(fmt::format("{} tokens in sentences of {}; model {} takes some of up to {}",
                                      batch->tokens.size(), batch->length, name(), context()));
      }
      check_tokens(batch->tokens, vocabulary_, name());
    }
    if (source.count() != target.count()) {
      throw ConfigError(fmt::format("{} sentences and {} translations", source.count(), target.count()));
    }
  }

  // Logits and tokens of all places of the target but the first, flat.
  std::pair<at::Tensor, at::Tensor> forward(const SentenceBatch& source, const SentenceBatch& target, Dropouts drop) {
    const at::Tensor tokens = tensor_of(target);
    const std::int64_t length = tokens.size(1) - 1;
    const Transformer::Memory memory = network_->encode(tensor_of(source), drop);
    const at::Tensor states = network_->decode(tokens.narrow(1, 0, length), memory, drop);
    return {network_->logits(states).flatten(0, 1).to(at::kFloat), tokens.narrow(1, 1, length).flatten()};
  }

  std::int64_t vocabulary_;
  std::shared_ptr<Transformer> network_;
};

std::unique_ptr<TranslationModel> make_transformer(const AnyOptions& options, std::string_view text,
                                                   std::int64_t vocabulary, std::uint64_t seed) {
  return in_torch(text, [&] {
    auto network = std::make_shared<Transformer>(options.as<TransformerOptions>(), vocabulary);
    initialise(*network, seed);
    return std::make_unique<TransformerModel>(std::string(text), vocabulary, std::move(network));
  });
}

AnyOptions transformer_options(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t inner,
                               double dropout) {
  TransformerOptions options;
  options.layers = layers;
  options.heads = heads;
  options.width = width;
  options.inner = inner;
  options.dropout = dropout;
  return options;
}

constexpr std::array translation_entries{
    TranslationModelEntry{"transformer-tiny", "3 + 3 layers of width 256; 6,001,664 parameters with 8,000 tokens", 5e-4,
                          [] { return transformer_options(3, 4, 256, 512, 0.1); }, make_transformer},
    TranslationModelEntry{"transformer-base", "6 + 6 layers of width 512; 63,082,496 parameters with 37,000 tokens",
                          5e-4, [] { return transformer_options(6, 8, 512, 2048, 0.1); }, make_transformer},
    TranslationModelEntry{"transformer-big", "6 + 6 layers of width 1024; 214,245,376 parameters with 37,000 tokens",
                          5e-4, [] { return transformer_options(6, 16, 1024, 4096, 0.3); }, make_transformer},
};
constexpr Table<TranslationModelEntry> translation_models("model", translation_entries);

}  // namespace

const Table<TranslationModelEntry>& translation_model_table() { return translation_models; }

}  // namespace sotto
