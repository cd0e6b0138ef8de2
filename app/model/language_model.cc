#include "app/model/language_model.h"

#include <fmt/format.h>

#include <array>

#include "app/model/flat_module.h"
#include "app/model/language_network.h"

namespace sotto {
namespace {

class NetworkLanguageModel final : public ModuleModel<LanguageModel> {
 public:
  NetworkLanguageModel(std::string name, std::int64_t vocabulary, std::shared_ptr<LanguageNetwork> network)
      : ModuleModel(std::move(name), network), vocabulary_(vocabulary), network_(std::move(network)) {}

  std::size_t context() const override { return static_cast<std::size_t>(network_->context()); }

  TokenSums accumulate_gradient(const TokenBatch& batch, float scale, std::uint64_t random,
                                const SegmentCalls& calls) override {
    check(batch);
    if (batch.wanted.empty()) throw ConfigError("the gradient of an empty batch does not exist");
    TokenSums sums;
    const double mean = flat_.accumulate_gradient(
        scale, calls, [&] { return loss_of(batch, random, at::Reduction::Mean, sums.right); });
    sums.loss = mean * static_cast<double>(batch.wanted.size());
    return sums;
  }

  TokenSums evaluate(const TokenBatch& batch) override {
    check(batch);
    TokenSums sums;
    if (batch.wanted.empty()) return sums;
    sums.loss = flat_.evaluate([&] { return loss_of(batch, 0, at::Reduction::Sum, sums.right); });
    return sums;
  }

 private:
  void check(const TokenBatch& batch) const {
    if (batch.length < 1 || batch.length > context() || batch.tokens.size() % batch.length != 0) {
      throw ConfigError(fmt::format("{} tokens in pieces of {}; model {} takes whole pieces of 1 to {}",
                                    batch.tokens.size(), batch.length, name(), context()));
    }
    for (const auto tokens : {batch.tokens, batch.wanted}) check_tokens(tokens, vocabulary_, name());
    const std::size_t places = batch.places.empty() ? batch.tokens.size() : batch.places.size();
    if (batch.wanted.size() != places) {
      throw ConfigError(fmt::format("{} tokens to predict at {} places", batch.wanted.size(), places));
    }
    for (const std::int64_t place : batch.places) {
      if (place < 0 || place >= static_cast<std::int64_t>(batch.tokens.size())) {
        throw ConfigError(fmt::format("place {} of {} tokens", place, batch.tokens.size()));
      }
    }
  }

  // Logits are computed only where a token is predicted.
  at::Tensor loss_of(const TokenBatch& batch, std::uint64_t random, std::int64_t reduction, double& right) const {
    const at::Tensor tokens = row_of(batch.tokens).view({-1, static_cast<std::int64_t>(batch.length)});
    at::Tensor states = network_->forward(tokens, random).flatten(0, 1);
    if (!batch.places.empty()) states = states.index_select(0, row_of(batch.places));
    const at::Tensor logits = network_->logits(states).to(at::kFloat), wanted = row_of(batch.wanted);
    {
      const at::NoGradGuard no_grad;
      const at::Tensor of_wanted = logits.gather(1, wanted.unsqueeze(1)).squeeze(1);
      right = of_wanted.ge(logits.amax(1)).sum().item<double>();
    }
    return at::cross_entropy_loss(logits, wanted, {}, reduction);
  }

  std::int64_t vocabulary_;
  std::shared_ptr<LanguageNetwork> network_;
};

template <auto Make>
constexpr LanguageModelEntry entry(std::string_view name, std::string_view summary, double lr,
                                   AnyOptions (*options)() = Made<Make>::options) {
  return {name, summary, lr, options, Made<Make>::make};
}

AnyOptions gpt_mini() {
  GptOptions options;
  options.layers = 6;
  options.heads = 4;
  options.width = options.context = 128;
  return options;
}

AnyOptions bert_mini() {
  BertOptions options;
  options.layers = options.heads = 4;
  options.width = 256;
  options.inner = 1024;
  return options;
}

constexpr std::array language_entries{
    entry<make_gpt>("gpt-mini", "6 layers of width 128; 1,239,040 parameters on bytes", 1e-3, gpt_mini),
    entry<make_gpt>("gpt2", "GPT-2's smallest, 12 layers of width 768; 124,439,808 parameters on its tokens", 6e-4),
    entry<make_lstm>("lstm", "2 recurrent layers of 200 units; 745,856 parameters on bytes", 2e-3),
};
constexpr Table<LanguageModelEntry> language_models("model", language_entries);

constexpr std::array masked_entries{
    entry<make_bert>("bert-mini", "4 layers of width 256; 11,201,594 parameters with 30,522 tokens", 5e-4, bert_mini),
    entry<make_bert>("bert-base", "12 layers of width 768; 109,514,298 parameters with 30,522 tokens", 1e-4),
};
constexpr Table<LanguageModelEntry> masked_models("model", masked_entries);

}  // namespace

const Table<LanguageModelEntry>& language_model_table() { return language_models; }
const Table<LanguageModelEntry>& masked_model_table() { return masked_models; }

std::unique_ptr<LanguageModel> make_language_model(const LanguageModelSpec& spec, std::int64_t vocabulary,
                                                   std::uint64_t seed) {
  return with_place(spec, [&] {
    return in_torch(spec.source_text(), [&] {
      std::shared_ptr<LanguageNetwork> network = spec.entry->make(spec.options, vocabulary);
      initialise(*network, seed);
      return std::make_unique<NetworkLanguageModel>(spec.source_text(), vocabulary, std::move(network));
    });
  });
}

}  // namespace sotto
