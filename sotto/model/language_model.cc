#include "sotto/model/language_model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/model/flat_module.h"
#include "sotto/model/language_network.h"

namespace sotto {
namespace {

class NetworkLanguageModel final : public ModuleModel<LanguageModel> {
 public:
  NetworkLanguageModel(std::string name, std::int64_t vocabulary, std::shared_ptr<LanguageNetwork> network)
      : ModuleModel(std::move(name), network), vocabulary_(vocabulary), network_(std::move(network)) {}

  std::size_t context() const override { return static_cast<std::size_t>(network_->context()); }

  double accumulate_gradient(const TokenBatch& batch, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override {
    check(batch);
    if (batch.count() == 0) throw ConfigError("the gradient of an empty batch does not exist");
    return flat_.accumulate_gradient(scale, calls, [&] { return loss_of(batch, random, at::Reduction::Mean); });
  }

  double evaluate(const TokenBatch& batch) override {
    check(batch);
    if (batch.count() == 0) return 0;
    return flat_.evaluate([&] { return loss_of(batch, 0, at::Reduction::Sum); });
  }

 private:
  void check(const TokenBatch& batch) const;
  at::Tensor loss_of(const TokenBatch& batch, std::uint64_t random, std::int64_t reduction) const;

  std::int64_t vocabulary_;
  std::shared_ptr<LanguageNetwork> network_;
};

void NetworkLanguageModel::check(const TokenBatch& batch) const {
  if (batch.length < 2 || batch.length > context() + 1 || batch.tokens.size() % batch.length != 0) {
    throw ConfigError(fmt::format("{} tokens in pieces of {}; model {} takes whole pieces of 2 to {}",
                                  batch.tokens.size(), batch.length, name(), context() + 1));
  }
  for (const std::int64_t token : batch.tokens) {
    if (token < 0 || token >= vocabulary_) {
      throw ConfigError(fmt::format("token {}; model {} has tokens 0 to {}", token, name(), vocabulary_ - 1));
    }
  }
}

at::Tensor NetworkLanguageModel::loss_of(const TokenBatch& batch, std::uint64_t random, std::int64_t reduction) const {
  const auto length = static_cast<std::int64_t>(batch.length);
  const at::Tensor tokens = at::from_blob(const_cast<std::int64_t*>(batch.tokens.data()),
                                          {static_cast<std::int64_t>(batch.count()), length}, at::kLong);
  const at::Tensor logits = network_->forward(tokens.narrow(1, 0, length - 1), random);
  const at::Tensor next = tokens.narrow(1, 1, length - 1);
  return at::cross_entropy_loss(logits.flatten(0, 1), next.flatten(), {}, reduction);
}

template <auto Make>
constexpr LanguageModelEntry adamw_entry(std::string_view name, std::string_view summary, double lr,
                                         AnyOptions (*options)() = Made<Make>::options) {
  return {name, summary, "adamw", lr, options, Made<Make>::make};
}

AnyOptions gpt_mini() {
  GptOptions options;
  options.layers = 6;
  options.heads = 4;
  options.width = options.context = 128;
  return options;
}

constexpr std::array language_entries{
    adamw_entry<make_gpt>("gpt-mini", "6 layers of width 128; 1,239,040 parameters on bytes", 1e-3, gpt_mini),
    adamw_entry<make_gpt>("gpt2", "GPT-2's smallest, 12 layers of width 768; 124,439,808 parameters on its tokens",
                          6e-4),
    adamw_entry<make_lstm>("lstm", "2 recurrent layers of 200 units; 745,856 parameters on bytes", 2e-3),
};
constexpr Table<LanguageModelEntry> language_models("model", language_entries);

}  // namespace

const Table<LanguageModelEntry>& language_model_table() { return language_models; }

std::unique_ptr<LanguageModel> make_language_model(const LanguageModelSpec& spec, std::int64_t vocabulary,
                                                   std::uint64_t seed) {
  return with_place(spec, [&] {
    std::shared_ptr<LanguageNetwork> network = spec.entry->make(spec.options, vocabulary);
    initialise(*network, seed);
    return std::make_unique<NetworkLanguageModel>(spec.said(), vocabulary, std::move(network));
  });
}

}  // namespace sotto
