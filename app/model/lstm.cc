#include <ATen/autocast_mode.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <cmath>
#include <optional>
#include <vector>

#include "app/model/language_network.h"
#include "app/model/through.h"

namespace sotto {
namespace {

// Long short-term memory (Hochreiter, Schmidhuber, 1997), dropout between the layers as Zaremba, Sutskever and Vinyals
// (2014) place it. Every piece of text begins with an empty memory. Named as in PyTorch's word_language_model.
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
    // Few processors have a kernel for an LSTM in float16, so it then stays in floats.
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

std::shared_ptr<LanguageNetwork> make_lstm(const LstmOptions& options, std::int64_t vocabulary) {
  return std::make_shared<Lstm>(options, vocabulary);
}

}  // namespace sotto
