// Laws of what is drawn: what it depends on, that it has no bias, and the variance that is declared.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/codec/laws.h"

namespace sotto::testing {
namespace {

// What is said of the stages that are listed.
bool ranks_draw_alike(const std::string& sentence) {
  return sentence.find("shared)") != std::string::npos || sentence.find("shared,") != std::string::npos ||
         (sentence.find("randomk") != std::string::npos && sentence.find("shared=false") == std::string::npos);
}
bool differs_by_rank(const std::string& sentence) {
  const auto has = [&](const char* part) { return sentence.find(part) != std::string::npos; };
  return has("qsgd") || has("terngrad") || has("natural") || sentence.starts_with("adaptive") || has("| adaptive") ||
         has("stochastic=true") || has("atomo") || has("exact=1)") || has("shared=false") || has("random,");
}

// Bodies of other seeds, ranks, steps and buckets differ just when there is chance in them.
TEST(Laws, ChanceIsOfEverythingInTheKey) {
  for (const std::string& sentence : listed_sentences()) {
    SCOPED_TRACE(sentence);
    if (is_warm(sentence)) continue;
    const bool alike = ranks_draw_alike(sentence), by_rank = differs_by_rank(sentence);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 4)};
    const auto body = [&](const Key& key, std::uint16_t bucket) {
      const auto bytes = encode(*fresh(sentence), input, key, bucket);
      return std::vector<std::byte>(bytes.begin() + sizeof(Header), bytes.end());
    };
    const auto first = body({5, 1, 0, 6}, 0);
    EXPECT_EQ(body({6, 1, 0, 6}, 0) != first, alike || by_rank);
    EXPECT_EQ(body({5, 1, 0, 7}, 0) != first, alike || by_rank);
    EXPECT_EQ(body({5, 1, 0, 6}, 1) != first, alike || by_rank);
    EXPECT_EQ(body({5, 2, 0, 6}, 0) != first, by_rank);
  }
}

TEST(Laws, MeanOfManyDrawsFindsTheInput) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 7)};
    const Contract contract = codec->contract(input.layout);
    if (!is_stochastic(sentence)) {
      if (contract.kind == Contract::Kind::unbiased) {  // where there is nothing to draw
        EXPECT_LE(square_distance(decode(*codec, input, encode(*codec, input)), input.values),
                  1e-10 * square_norm(input.values));
      }
      return;
    }
    constexpr int draws = 300;
    std::vector<double> mean(input.values.size());
    double variance = 0, squares = 0;
    for (int t = 0; t < draws; ++t) {
      const auto decoded =
          decode(*codec, input, encode(*codec, input, {.seed = 8, .step = static_cast<std::uint32_t>(t)}));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      const double distance = square_distance(decoded, input.values);
      variance += distance / draws;
      squares += distance * distance / draws;
    }
    const double norm = square_norm(input.values);
    // Four times the standard error of that variance: one sentence in 30000 is beyond it by chance.
    const double slack = 4 * std::sqrt(std::max(squares - variance * variance, 0.0) / draws) + tolerance(input);
    if (contract.kind == Contract::Kind::contraction) {
      EXPECT_LE(variance, (1 - contract.delta) * norm + slack);
    } else if (contract.kind == Contract::Kind::unbiased) {
      EXPECT_LE(variance, contract.omega * norm + slack);
      // |mean - x|^2 is variance/T on average, a sum of some eighty nearly independent terms: twice that is far out. In
      // sentences that nobody looked at, one term may count for all: 16 times is as far out then.
      double error = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
      EXPECT_LE(error, (is_listed(sentence) ? 2 : 16) * variance / draws + tolerance(input));
    }
  });
}

// The distance of a mean of T draws from the input falls as 1/sqrt(T), as far as one likes: there is no bias below it.
TEST(Laws, TheErrorOfAMeanFallsWithTheRootOfTheDraws) {
  int unbiased = 0;
  for_all([&](const std::string& sentence) {
    if (!is_listed(sentence)) return;  // of which it is not known how many terms there are
    const auto codec = fresh(sentence);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 17)};
    if (codec->contract(input.layout).kind != Contract::Kind::unbiased) return;
    if (unbiased++ % 4 != 0 && is_sample) return;
    std::uint32_t step = 0;
    const auto square_error = [&](int draws) {
      std::vector<double> mean(input.values.size());
      for (int t = 0; t < draws; ++t) {
        const auto decoded = decode(*codec, input, encode(*codec, input, {.seed = 18, .step = step++}));
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      }
      double error = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
      return error;
    };
    // 80 nearly independent terms, of which those of the largest elements may count for most, so one error is known to
    // about a quarter: four are averaged. Where one atom is many elements there are only a few terms: there, sixteen
    // shorter means are.
    const int means = transforms(sentence) ? 16 : 4;
    const int few = transforms(sentence) ? 16 : 32;
    double of_few = 0, of_many = 0;
    for (int i = 0; i < means; ++i) {
      of_few += square_error(few);
      of_many += square_error(few * few);
    }
    const double ratio = std::sqrt(of_few / of_many);
    const double expected = std::sqrt(few);
    const double slack = transforms(sentence) ? 2 : 1.5;
    EXPECT_GT(ratio, expected / slack);
    EXPECT_LT(ratio, expected * slack);
  });
  EXPECT_GT(unbiased, 0);
}

}  // namespace
}  // namespace sotto::testing
