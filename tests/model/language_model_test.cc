// Laws of the language models, by their table.
#include "sotto/model/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/model/language_network.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

constexpr std::int64_t vocabulary = 11;

std::unique_ptr<LanguageModel> model_of(std::string_view text, std::uint64_t seed = 1) {
  return make_language_model(language_model_table().read("model", text), vocabulary, seed);
}

std::vector<std::int64_t> tokens_of(std::size_t count) {
  Philox random(5, Purpose::test);
  std::vector<std::int64_t> tokens(count);
  for (std::int64_t& token : tokens) token = random.below(vocabulary);
  return tokens;
}

TEST(LanguageModels, HaveTheParametersThatTheirSummariesSay) {
  for (const LanguageModelEntry& entry : language_model_table()) {
    const auto network = entry.make(entry.options(), entry.name == "gpt2" ? 50'257 : 256);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : network->parameters()) count += parameter.numel();
    std::string digits;
    for (const char c : entry.summary.substr(entry.summary.find(';'))) {
      if (c >= '0' && c <= '9') digits += c;
    }
    EXPECT_EQ(digits, std::to_string(count)) << entry.name;
  }
}

class Small : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<LanguageModel> model_ = model_of(GetParam());
  std::vector<std::int64_t> tokens_ = tokens_of(4 * 9);
  TokenBatch batch_{tokens_, 9};
  double evaluate() { return model_->evaluate(batch_); }
};
INSTANTIATE_TEST_SUITE_P(LanguageModels, Small,
                         testing::Values("gpt-mini(layers=2, heads=2, width=8, context=8)",
                                         "lstm(layers=2, width=6, context=8)"));

TEST_P(Small, BeginsWithAGuessOfItsSeed) {
  EXPECT_NEAR(evaluate() / 32, std::log(vocabulary), 0.1);
  EXPECT_TRUE(std::ranges::equal(model_->parameters(), model_of(GetParam())->parameters()));
  EXPECT_FALSE(std::ranges::equal(model_->parameters(), model_of(GetParam(), 2)->parameters()));
}

// The gradient along itself, by a central difference.
TEST_P(Small, TheGradientIsThatOfTheLoss) {
  const double loss = model_->accumulate_gradient(batch_, 1, 0, {});
  EXPECT_NEAR(loss, evaluate() / 32, 1e-6);
  const std::vector<float> gradient(model_->gradient().begin(), model_->gradient().end());
  double square = 0;
  for (const float g : gradient) square += static_cast<double>(g) * g;
  const auto moved = [&](double by) {
    for (std::size_t i = 0; i < gradient.size(); ++i) model_->parameters()[i] += static_cast<float>(by) * gradient[i];
    return evaluate() / 32;
  };
  const double step = 0.005 / std::sqrt(square);
  const double up = moved(step), down = moved(-2 * step);
  EXPECT_NEAR((up - down) / (2 * step), square, 0.01 * square);
}

// A token that is only predicted, the last one, changes its own loss alone; so no place sees what comes after it.
TEST_P(Small, NoPlaceSeesWhatComesAfterIt) {
  const auto loss_of_first = [&](std::size_t length) {
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) sum += model_->evaluate({std::span(tokens_).subspan(9 * i, length), length});
    return sum;
  };
  const double first = loss_of_first(5);
  for (std::size_t i = 0; i < 4; ++i) tokens_[9 * i + 8] = (tokens_[9 * i + 8] + 1) % vocabulary;
  EXPECT_EQ(loss_of_first(5), first);
  // The sum over all places of the whole is that of the prefix, plus what follows: perplexities of prefixes only add.
  double last = 0;
  for (std::size_t length = 2; length <= 9; ++length) {
    const double sum = loss_of_first(length);
    EXPECT_GT(sum, last);
    last = sum;
  }
  EXPECT_NEAR(last, evaluate(), 1e-4);
}

TEST_P(Small, CallsForAllSegmentsOnce) {
  std::multiset<std::size_t> needed, ready;
  const SegmentCalls calls{.needed = [&](std::size_t s) { needed.insert(s); },
                           .ready = [&](std::size_t s) { ready.insert(s); }};
  model_->accumulate_gradient(batch_, 1, 0, calls);
  const std::size_t count = model_->layout().segments().size();
  EXPECT_EQ(needed.size(), count);
  EXPECT_EQ(ready.size(), count);
  EXPECT_EQ(std::set(ready.begin(), ready.end()).size(), count);
}

TEST_P(Small, DropoutIsAFunctionOfItsNumber) {
  const std::string text = GetParam();
  const auto model = model_of(text.substr(0, text.size() - 1) + ", dropout=0.5)");
  const auto loss = [&](std::uint64_t random) { return model->accumulate_gradient(batch_, 1, random, {}); };
  EXPECT_EQ(loss(3), loss(3));
  EXPECT_NE(loss(3), loss(4));
  EXPECT_EQ(model->evaluate(batch_), evaluate()) << "which drops nothing";
}

TEST_P(Small, RefusesOtherBatches) {
  const auto refusal = [&](const TokenBatch& batch) { return test::message_of([&] { model_->evaluate(batch); }); };
  EXPECT_NE(refusal({tokens_, 12}).find("takes whole pieces of 2 to 9"), std::string::npos);
  EXPECT_NE(refusal({tokens_, 7}).find("takes whole pieces"), std::string::npos);
  EXPECT_EQ(refusal({std::span(tokens_).first(0), 9}), "");
  tokens_[7] = vocabulary;
  EXPECT_NE(refusal(batch_).find("token 11;"), std::string::npos);
}

}  // namespace
}  // namespace sotto
