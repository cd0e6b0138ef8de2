// Compares BERT with Hugging Face's BertForMaskedLM. tools/bert_goldens.py made the numbers with the same weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "app/model/language_model.h"
#include "app/model/language_network.h"
#include "sotto/optim/sgd.h"

namespace sotto {
namespace {

constexpr std::int64_t bert_vocabulary = 23, context = 12, size = 3 * context;
constexpr std::string_view small_bert = "bert-mini(layers=2, heads=4, width=16, inner=24, context=12, dropout=0)";

constexpr std::array known_logits{-0.76750338, -0.015614837, -0.15586361, 0.51555729,  0.76126724,  0.20690247,
                                  0.42536348,  -0.36750153,  -0.65331012, -0.32787615, -0.66233879, 0.17554578,
                                  0.45480967,  0.36175907,   0.83133167,  0.023746908, -0.19098394, -0.30668062,
                                  -0.90662432, -0.19324705,  -0.10274254, 0.17587124,  0.87630534};
constexpr std::array losses{3.4335272, 3.3218884,  3.1247439,  2.8784359,  2.6233079,  2.3919301, 2.1983528,
                            2.0344708, 1.8813201,  1.7234104,  1.5586103,  1.400139,   1.2636052, 1.1508554,
                            1.051466,  0.95835793, 0.87235218, 0.79496247, 0.72509289, 0.66603613};

class Bert : public testing::Test {
 protected:
  Bert() {
    for (std::int64_t i = 0; i < size; ++i) tokens_.push_back((7 * i + i * i) % bert_vocabulary);
    for (std::int64_t i = 1; i < size; i += 5) {
      places_.push_back(i);
      wanted_.push_back(3 * i % bert_vocabulary);
    }
  }
  // Element i of the k-th parameter.
  static float weight(std::string_view name, std::size_t k, std::size_t i) {
    const double start = name.ends_with("LayerNorm.weight") ? 1 : 0;
    return static_cast<float>(start + 0.3 * std::sin(2.399 * static_cast<double>(i) + static_cast<double>(k)));
  }
  const LanguageModelSpec spec_ = masked_model_table().read("model", small_bert);
  std::vector<std::int64_t> tokens_, places_, wanted_;
};

TEST_F(Bert, LogitsAreTheirs) {
  const at::NoGradGuard no_grad;
  const auto network = spec_.entry->make(spec_.options, bert_vocabulary);
  const auto parameters = network->named_parameters();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor& values = parameters[k].value();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      values.data_ptr<float>()[i] = weight(parameters[k].key(), k, static_cast<std::size_t>(i));
    }
  }
  network->to(at::kDouble);  // so that only the known numbers are rounded, on whatever processor
  network->eval();
  const at::Tensor batch = at::from_blob(tokens_.data(), {3, context}, at::kLong);
  const at::Tensor ours = network->logits(network->forward(batch, 0).flatten(0, 1)).select(0, places_[0]).contiguous();
  ASSERT_EQ(ours.numel(), static_cast<std::int64_t>(known_logits.size()));
  for (std::size_t i = 0; i < known_logits.size(); ++i)
    EXPECT_NEAR(ours.const_data_ptr<double>()[i], known_logits[i], 1e-6) << i;
}

// Our own losses with the pieces in another order show how far rounding moves them on this processor.
TEST_F(Bert, LossesOfTwentyStepsAreTheirs) {
  const auto count = static_cast<double>(wanted_.size());
  const auto trained = [&](const TokenBatch& batch) {
    const auto model = make_language_model(spec_, bert_vocabulary, 1);
    const auto segments = model->layout().segments();
    for (std::size_t k = 0; k < segments.size(); ++k) {
      for (std::size_t i = 0; i < segments[k].numel(); ++i) {
        model->parameters()[segments[k].offset + i] = weight(segments[k].name, k, i);
      }
    }
    const auto sgd = make_sgd({.momentum = 0.9}, model->layout());
    std::vector<double> found{model->evaluate(batch).loss / count};
    for (std::size_t step = 0; step < losses.size(); ++step) {
      std::fill(model->gradient().begin(), model->gradient().end(), 0.0F);
      found.push_back(model->accumulate_gradient(batch, 1, step, {}).loss / count);
      sgd->apply(model->parameters(), model->gradient(), 0, 0.02);
    }
    return found;
  };
  const auto found = trained({tokens_, context, wanted_, places_});
  std::vector<std::int64_t> tokens, places;
  for (std::int64_t piece = size / context - 1; piece >= 0; --piece) {
    tokens.insert(tokens.end(), tokens_.begin() + piece * context, tokens_.begin() + (piece + 1) * context);
  }
  for (const std::int64_t place : places_) {
    places.push_back(size - context - place / context * context + place % context);
  }
  const auto again = trained({tokens, context, wanted_, places});
  EXPECT_NEAR(found[0], losses[0], 1e-6 * losses[0]);
  double farthest = 0;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    farthest = std::max(farthest, std::abs(found[1 + step] - again[1 + step]));
    EXPECT_NEAR(found[1 + step], losses[step], 8 * farthest + 1e-6 * losses[0]) << step;
  }
}

}  // namespace
}  // namespace sotto
