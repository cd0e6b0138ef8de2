// Laws of the Transformer, and the results of beam search.
#include "app/model/translation_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "app/model/language_network.h"
#include "sotto/core/random.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

constexpr std::int64_t pieces = 9;
constexpr std::string_view small = "transformer-tiny(layers=2, heads=2, width=8, inner=16, context=12, dropout=0, ";

std::unique_ptr<TranslationModel> translation_model_of(const std::string& more = "label-smoothing=0)",
                                                       std::uint64_t seed = 1) {
  const TranslationModelSpec spec = translation_model_table().read("model", std::string(small) + more);
  return spec.entry->make(spec.options, spec.source_text(), pieces, seed);
}

// Two sentences and their translations; the second sentence is shorter.
const std::vector<std::int64_t> source_tokens{5, 6, 7, 3, 8, 4, 3, 0}, target_tokens{2, 4, 5, 6, 3, 2, 8, 3, 0, 0};
const SentenceBatch source{source_tokens, 4}, target{target_tokens, 5};

TEST(TranslationModels, HaveTheParametersThatTheirSummariesSay) {
  for (const TranslationModelEntry& entry : translation_model_table()) {
    const Transformer network(entry.options().as<TransformerOptions>(),
                              entry.name == "transformer-tiny" ? 8000 : 37'000);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : network.parameters()) count += parameter.numel();
    std::string digits;
    const std::string_view text = entry.summary.substr(entry.summary.find(';'));
    for (const char c : text.substr(0, text.find(" with"))) {
      if (c >= '0' && c <= '9') digits += c;
    }
    EXPECT_EQ(digits, std::to_string(count)) << entry.name;
  }
}

TEST(TranslationModels, PadsChangeNothing) {
  const auto model = translation_model_of();
  const TokenLoss both = model->evaluate(source, target);
  EXPECT_EQ(both.tokens, 6);
  const TokenLoss first =
      model->evaluate({std::span(source_tokens).first(4), 4}, {std::span(target_tokens).first(5), 5});
  const TokenLoss second =
      model->evaluate({std::span(source_tokens).subspan(4, 3), 3}, {std::span(target_tokens).subspan(5, 3), 3});
  EXPECT_NEAR(first.sum + second.sum, both.sum, 1e-4);
}

TEST(TranslationModels, TheGradientIsThatOfTheLoss) {
  const auto model = translation_model_of("label-smoothing=0)");
  const TokenLoss loss = model->accumulate_gradient(source, target, 1, 0, {});
  EXPECT_NEAR(loss.sum, model->evaluate(source, target).sum, 1e-4);
  const std::vector<float> gradient(model->gradient().begin(), model->gradient().end());
  double square = 0;
  for (const float g : gradient) square += static_cast<double>(g) * g;
  const auto moved = [&](double by) {
    for (std::size_t i = 0; i < gradient.size(); ++i) model->parameters()[i] += static_cast<float>(by) * gradient[i];
    return model->evaluate(source, target).sum / 6;
  };
  const double step = 0.002 / std::sqrt(square);
  const double up = moved(step), down = moved(-2 * step);
  EXPECT_NEAR((up - down) / (2 * step), square, 0.02 * square);
}

TEST(TranslationModels, SmoothLabelsInTrainingOnly) {
  const auto plain = translation_model_of(), smooth = translation_model_of("label-smoothing=0.2)");
  EXPECT_EQ(plain->evaluate(source, target).sum, smooth->evaluate(source, target).sum);
  const TokenLoss a = plain->accumulate_gradient(source, target, 1, 0, {});
  const TokenLoss b = smooth->accumulate_gradient(source, target, 1, 0, {});
  EXPECT_NEAR(a.sum, b.sum, 1e-4) << "what is told is not smoothed";
  EXPECT_FALSE(std::ranges::equal(plain->gradient(), smooth->gradient()));
}

TEST(TranslationModels, CallsForAllSegmentsOnce) {
  const auto model = translation_model_of();
  std::multiset<std::size_t> needed, ready;
  const SegmentCalls calls{.needed = [&](std::size_t s) { needed.insert(s); },
                           .ready = [&](std::size_t s) { ready.insert(s); }};
  model->accumulate_gradient(source, target, 1, 0, calls);
  const std::size_t count = model->layout().segments().size();
  EXPECT_EQ(needed.size(), count);
  EXPECT_EQ(std::set(ready.begin(), ready.end()).size(), count);
  EXPECT_EQ(ready.size(), count);
}

// Scores all translations of up to three tokens one by one. A beam that is wide enough for all of them must find the
// best.
TEST(BeamSearch, FindsTheLikeliest) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    const auto model = translation_model_of("label-smoothing=0, beam=80, length-penalty=0.6)", seed);
    for (float& parameter : model->parameters()) parameter *= 3;  // far from a uniform guess
    const SentenceBatch one{std::span(source_tokens).first(4), 4};
    double best = -HUGE_VAL;
    std::vector<std::int64_t> winner;
    const auto consider = [&](const std::vector<std::int64_t>& words) {
      std::vector<std::int64_t> whole{begin_token};
      whole.insert(whole.end(), words.begin(), words.end());
      whole.push_back(end_token);
      const double length = static_cast<double>(words.size()) + 1;
      const double score = -model->evaluate(one, {whole, whole.size()}).sum / std::pow((5 + length) / 6, 0.6);
      if (score > best) best = score, winner = words;
    };
    // All marks but the end are tokens like others. A pad ends the sentence that is read, and is never scored.
    const std::vector<std::int64_t> tokens{1, 2, 4, 5, 6, 7, 8};
    consider({});
    for (const auto a : tokens) {
      consider({a});
      for (const auto b : tokens) consider({a, b});
    }
    const auto found = model->translate(one);
    ASSERT_EQ(found.size(), 1U);
    if (found[0].size() <= 2) {
      EXPECT_EQ(found[0], winner) << seed;
    }
  }
}

TEST(BeamSearch, OfABatchIsThatOfEachSentence) {
  const auto model = translation_model_of("label-smoothing=0, beam=3)");
  for (float& parameter : model->parameters()) parameter *= 3;
  const auto both = model->translate(source);
  const auto first = model->translate({std::span(source_tokens).first(4), 4});
  EXPECT_EQ(both.at(0), first.at(0));
}

// A model that never ends a sentence comes to the limit of each sentence, the same as when it is alone.
TEST(BeamSearch, TheLongestTranslationIsThatOfTheSentence) {
  const TranslationModelSpec spec = translation_model_table().read(
      "model", "transformer-tiny(layers=2, heads=2, width=8, inner=16, context=80, dropout=0, beam=2)");
  const auto model = spec.entry->make(spec.options, spec.source_text(), pieces, 1);
  for (float& parameter : model->parameters()) parameter *= 3;
  std::vector<std::int64_t> tokens(36, pad_token);
  for (std::size_t i = 0; i < 17; ++i) tokens[18 + i] = 4 + static_cast<std::int64_t>(i % 5);
  for (std::size_t i = 0; i < 3; ++i) tokens[i] = 5 + static_cast<std::int64_t>(i);
  tokens[3] = tokens[35] = end_token;
  const auto both = model->translate({tokens, 18});
  EXPECT_EQ(both.at(0), model->translate({std::span(tokens).first(4), 4}).at(0));
  EXPECT_EQ(both.at(1), model->translate({std::span(tokens).last(18), 18}).at(0));
  EXPECT_EQ(both.at(0).size(), 53U) << "it never ends";
}

TEST(TranslationModels, RefuseOtherBatches) {
  const auto model = translation_model_of();
  const auto refusal = [&](const SentenceBatch& from, const SentenceBatch& to) {
    return test::message_of([&] { model->evaluate(from, to); });
  };
  EXPECT_NE(refusal(source, {std::span(target_tokens).first(5), 5}).find("2 sentences and 1 translations"),
            std::string::npos);
  const std::vector<std::int64_t> wrong{5, 9, 3}, longer(13, 4);
  EXPECT_NE(refusal({wrong, 3}, target).find("token 9;"), std::string::npos);
  EXPECT_NE(refusal({longer, 13}, target).find("takes some of up to 12"), std::string::npos);
  EXPECT_NE(test::message_of([&] { translation_model_of("heads=3)"); }).find("heads"), std::string::npos);
}

}  // namespace
}  // namespace sotto
