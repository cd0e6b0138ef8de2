// Laws of the language models in the table.
#include "app/model/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "app/model/language_network.h"
#include "sotto/core/random.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

constexpr std::int64_t vocabulary = 11;

bool is_masked(std::string_view text) { return text.starts_with("bert"); }

std::unique_ptr<LanguageModel> language_model_of(std::string_view text, std::uint64_t seed = 1) {
  const auto& table = is_masked(text) ? masked_model_table() : language_model_table();
  return make_language_model(table.read("model", text), vocabulary, seed);
}

std::vector<std::int64_t> tokens_of(std::size_t count) {
  Philox random(5, Purpose::test);
  std::vector<std::int64_t> tokens(count);
  for (std::int64_t& token : tokens) token = random.below(vocabulary);
  return tokens;
}

TEST(LanguageModels, HaveTheParametersThatTheirSummariesSay) {
  const auto check = [](const LanguageModelEntry& entry, std::int64_t tokens) {
    const auto network = entry.make(entry.options(), tokens);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : network->parameters()) count += parameter.numel();
    std::string digits;
    for (const char c : entry.summary.substr(entry.summary.find(';'))) {
      if (c >= '0' && c <= '9') digits += c;
      if (c == 'p') break;
    }
    EXPECT_EQ(digits, std::to_string(count)) << entry.name;
  };
  for (const LanguageModelEntry& entry : language_model_table()) check(entry, entry.name == "gpt2" ? 50'257 : 256);
  for (const LanguageModelEntry& entry : masked_model_table()) check(entry, 30'522);
}

// Four pieces of eight tokens. A model predicts each next token, or two tokens of each piece.
class Small : public testing::TestWithParam<const char*> {
 protected:
  Small() {
    for (std::size_t piece = 0; piece < 4; ++piece) {
      for (std::size_t i = 0; i < 8; ++i) {
        tokens_.push_back(all_[9 * piece + i]);
        if (!masked_) wanted_.push_back(all_[9 * piece + i + 1]);
      }
      for (const std::size_t place : {1U, 6U}) {
        if (!masked_) continue;
        places_.push_back(static_cast<std::int64_t>(8 * piece + place));
        wanted_.push_back(all_[place + piece]);
      }
    }
  }
  static std::string text(std::string_view dropout) {
    const std::string said = GetParam();
    return said.substr(0, said.size() - 1) + ", dropout=" + std::string(dropout) + ")";
  }
  TokenBatch batch() const { return {tokens_, 8, wanted_, places_}; }
  double mean() { return model_->evaluate(batch()).loss / static_cast<double>(wanted_.size()); }

  const bool masked_ = is_masked(GetParam());
  const std::vector<std::int64_t> all_ = tokens_of(4 * 9);
  std::vector<std::int64_t> tokens_, wanted_, places_;
  std::unique_ptr<LanguageModel> model_ = language_model_of(text("0"));
};
INSTANTIATE_TEST_SUITE_P(LanguageModels, Small,
                         testing::Values("gpt-mini(layers=2, heads=2, width=8, context=8)",
                                         "lstm(layers=2, width=6, context=8)",
                                         "bert-mini(layers=2, heads=2, width=8, inner=12, context=8)"));

TEST_P(Small, BeginsWithAGuessOfItsSeed) {
  EXPECT_NEAR(mean(), std::log(vocabulary), 0.1);
  EXPECT_TRUE(std::ranges::equal(model_->parameters(), language_model_of(GetParam())->parameters()));
  EXPECT_FALSE(std::ranges::equal(model_->parameters(), language_model_of(GetParam(), 2)->parameters()));
}

// Checks the slope of the loss along the gradient by a central difference.
TEST_P(Small, TheGradientIsThatOfTheLoss) {
  const double loss = model_->accumulate_gradient(batch(), 1, 0, {}).loss / static_cast<double>(wanted_.size());
  EXPECT_NEAR(loss, mean(), 1e-6);
  const std::vector<float> gradient(model_->gradient().begin(), model_->gradient().end());
  double square = 0;
  for (const float g : gradient) square += static_cast<double>(g) * g;
  const auto moved = [&](double by) {
    for (std::size_t i = 0; i < gradient.size(); ++i) model_->parameters()[i] += static_cast<float>(by) * gradient[i];
    return mean();
  };
  const double step = 0.0005 / std::sqrt(square);
  const double up = moved(step), down = moved(-2 * step);
  EXPECT_NEAR((up - down) / (2 * step), square, 0.01 * square);
}

// A change of the token wanted at the last place changes the loss of that place only, and so does a change of the token
// read there, since no place sees later ones. A model that predicts hidden tokens sees all places.
TEST_P(Small, SeesWhatItMaySee) {
  const auto loss_at_first = [&](std::int64_t last) {  // for a piece that ends with that token
    std::vector<std::int64_t> tokens(all_.begin(), all_.begin() + 8);
    tokens.back() = last;
    const std::vector<std::int64_t> places{0}, wanted{all_[1]};
    return model_->evaluate({tokens, 8, wanted, places}).loss;
  };
  EXPECT_EQ(loss_at_first(1) == loss_at_first(2), !masked_);
}

TEST_P(Small, LossesOfPlacesAddUp) {
  double loss = 0, right = 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::vector<std::int64_t> places{masked_ ? places_[i] : static_cast<std::int64_t>(i)};
    const TokenSums one = model_->evaluate({tokens_, 8, std::span(wanted_).subspan(i, 1), places});
    loss += one.loss;
    right += one.right;
  }
  const TokenSums all = model_->evaluate(batch());
  EXPECT_NEAR(all.loss, loss, 1e-5 * loss);
  EXPECT_EQ(all.right, right);
}

// A model that trains on one batch only learns it by heart.
TEST_P(Small, CountsWhatIsRight) {
  const double before = model_->evaluate(batch()).right;
  for (int step = 0; step < 400; ++step) {
    std::ranges::fill(model_->gradient(), 0.0F);
    model_->accumulate_gradient(batch(), 1, 0, {});
    for (std::size_t i = 0; i < model_->parameters().size(); ++i) {
      model_->parameters()[i] -= 0.5F * model_->gradient()[i];
    }
  }
  EXPECT_GT(model_->evaluate(batch()).right, before);
  EXPECT_GE(model_->evaluate(batch()).right, 0.3 * static_cast<double>(wanted_.size()));
}

TEST_P(Small, CallsForAllSegmentsOnce) {
  std::multiset<std::size_t> needed, ready;
  const SegmentCalls calls{.needed = [&](std::size_t s) { needed.insert(s); },
                           .ready = [&](std::size_t s) { ready.insert(s); }};
  model_->accumulate_gradient(batch(), 1, 0, calls);
  const std::size_t count = model_->layout().segments().size();
  EXPECT_EQ(needed.size(), count);
  EXPECT_EQ(ready.size(), count);
  EXPECT_EQ(std::set(ready.begin(), ready.end()).size(), count);
}

TEST_P(Small, DropoutIsAFunctionOfItsNumber) {
  const auto model = language_model_of(text("0.5"));
  const auto loss = [&](std::uint64_t random) { return model->accumulate_gradient(batch(), 1, random, {}).loss; };
  EXPECT_EQ(loss(3), loss(3));
  EXPECT_NE(loss(3), loss(4));
  EXPECT_EQ(model->evaluate(batch()).loss, model_->evaluate(batch()).loss) << "which drops nothing";
}

TEST_P(Small, RefusesOtherBatches) {
  const auto refusal = [&](const TokenBatch& batch) { return test::message_of([&] { model_->evaluate(batch); }); };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal({tokens_, 16, wanted_, places_}), "takes whole pieces of 1 to 8"));
  EXPECT_TRUE(has(refusal({tokens_, 7, wanted_, places_}), "takes whole pieces"));
  EXPECT_TRUE(has(refusal({tokens_, 8, std::span(wanted_).subspan(1), places_}), "tokens to predict at"));
  const std::vector<std::int64_t> outside(wanted_.size(), 32);
  EXPECT_TRUE(has(refusal({tokens_, 8, wanted_, outside}), "place 32 of 32 tokens"));
  EXPECT_EQ(refusal({std::span(tokens_).first(0), 8, {}, {}}), "");
  EXPECT_TRUE(has(test::message_of([&] { model_->accumulate_gradient({{}, 8, {}, {}}, 1, 0, {}); }), "empty batch"));
  wanted_[1] = vocabulary;
  EXPECT_TRUE(has(refusal(batch()), "token 11;"));
  tokens_[7] = -1;
  EXPECT_TRUE(has(refusal(batch()), "token -1;"));
}

}  // namespace
}  // namespace sotto
