// Laws of random draws: what they depend on, that they have no bias, and that their variance is as declared.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/codec/laws.h"

namespace sotto::testing {
namespace {

// Messages with another seed, rank, step or bucket have another body exactly where the contract says that it depends on
// chance.
TEST(Laws, ChanceIsOfEverythingInTheKey) {
  for (const std::string& expression : listed_codecs()) {
    SCOPED_TRACE(expression);
    if (is_warm(expression)) continue;
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 4)};
    const Contract::Chance chance = fresh(expression)->contract(input.layout).chance;
    const bool draws = chance != Contract::Chance::none;
    const auto body = [&](const Key& key, std::uint16_t bucket) {
      const auto bytes = encode(*fresh(expression), input, key, bucket);
      return std::vector<std::byte>(bytes.begin() + sizeof(Header), bytes.end());
    };
    const auto first = body({5, 1, 0, 6}, 0);
    EXPECT_EQ(body({6, 1, 0, 6}, 0) != first, draws);
    EXPECT_EQ(body({5, 1, 0, 7}, 0) != first, draws);
    EXPECT_EQ(body({5, 1, 0, 6}, 1) != first, draws);
    EXPECT_EQ(body({5, 2, 0, 6}, 0) != first, chance == Contract::Chance::own);
  }
}

using Draws = std::vector<std::vector<double>>;  // the decoded values of each draw

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The eigenvalues of the covariance of T draws. spectrum_of() subtracts the mean from the draws.
struct Spectrum {
  double trace = 0, norm = 0, largest = 0;  // sum, root of the sum of squares, and largest of the eigenvalues
};
Spectrum spectrum_of(Draws draws, std::span<const double> mean) {
  for (auto& draw : draws) std::ranges::transform(draw, mean, draw.begin(), std::minus<>());
  const auto count = static_cast<double>(draws.size());
  Spectrum found;
  double squares = 0;  // for two draws d and d', E (d . d')^2 is the sum of squared eigenvalues
  for (std::size_t s = 0; s < draws.size(); ++s) {
    found.trace += dot(draws[s], draws[s]) / (count - 1);
    for (std::size_t t = 0; t < s; ++t) squares += std::pow(dot(draws[s], draws[t]), 2);
  }
  found.norm = std::sqrt(squares / (count * (count - 1) / 2));
  // Power iteration, beginning with the draw that is furthest from the mean.
  std::vector<double> axis = *std::ranges::max_element(draws, {}, [](const auto& draw) { return dot(draw, draw); });
  for (int i = 0; i < 30; ++i) {
    std::vector<double> next(axis.size());
    for (const auto& draw : draws) {
      const double share = dot(draw, axis) / count;
      for (std::size_t j = 0; j < next.size(); ++j) next[j] += share * draw[j];
    }
    const double length = std::sqrt(dot(axis, axis)), grown = std::sqrt(dot(next, next));
    if (length == 0 || grown == 0) break;
    found.largest = grown / length;
    for (double& x : next) x /= grown;
    axis = std::move(next);
  }
  return found;
}

// The bound that |mean - x|^2 of T draws exceeds once in `times` runs, if there is no bias. By the central limit
// theorem, T |mean - x|^2 is about the sum of lambda_i chi_i^2 over the eigenvalues lambda of the covariance. Laurent
// and Massart (2000, lemma 1) bound its tail: P(sum lambda_i (chi_i^2 - 1) >= 2 |lambda|_2 sqrt(x) + 2 |lambda|_max x)
// <= exp(-x).
double most_of_a_mean(const Spectrum& spectrum, std::size_t draws, double times) {
  const double x = std::log(times);
  return (spectrum.trace + 2 * spectrum.norm * std::sqrt(x) + 2 * spectrum.largest * x) / static_cast<double>(draws);
}

TEST(Laws, MeanOfManyDrawsFindsTheInput) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 7)};
    const Contract contract = codec->contract(input.layout);
    if (!is_stochastic(expression)) {
      if (contract.kind == Contract::Kind::unbiased) {  // unbiased without draws, so exact
        EXPECT_LE(square_distance(decode(*codec, input, encode(*codec, input)), input.values),
                  1e-10 * square_norm(input.values));
      }
      return;
    }
    constexpr int draws = 300;
    std::vector<double> mean(input.values.size());
    Draws all;
    double variance = 0, squares = 0;
    for (int t = 0; t < draws; ++t) {
      const auto decoded =
          decode(*codec, input, encode(*codec, input, {.seed = 8, .step = static_cast<std::uint32_t>(t)}));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      const double distance = square_distance(decoded, input.values);
      all.emplace_back(decoded.begin(), decoded.end());
      variance += distance / draws;
      squares += distance * distance / draws;
    }
    const double norm = square_norm(input.values);
    // Four standard errors of the variance; by chance, one codec in 30000 exceeds them.
    const double slack = 4 * std::sqrt(std::max(squares - variance * variance, 0.0) / draws) + tolerance(input);
    if (contract.kind == Contract::Kind::contraction) {
      EXPECT_LE(variance, (1 - contract.delta) * norm + slack);
    } else if (contract.kind == Contract::Kind::unbiased) {
      EXPECT_LE(variance, contract.omega * norm + slack);
      // By chance, one codec in a hundred thousand exceeds this bound: with other seeds, one run in about five hundred.
      double error = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
      const Spectrum spectrum = spectrum_of(std::move(all), mean);
      EXPECT_LE(error, most_of_a_mean(spectrum, draws, 1e5) + tolerance(input));
    }
  });
}

// The distance between the input and the mean of T draws falls as 1/sqrt(T) without end, since there is no bias.
TEST(Laws, TheErrorOfAMeanFallsWithTheRootOfTheDraws) {
  int unbiased = 0;
  for_all([&](const std::string& expression) {
    if (!is_listed(expression)) return;  // the number of terms of other codecs is not known
    const auto codec = fresh(expression);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 17)};
    if (codec->contract(input.layout).kind != Contract::Kind::unbiased) return;
    ++unbiased;
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
    // An error is the sum of 80 nearly independent terms, most of it perhaps from the largest elements. One error is
    // therefore known to about a quarter, and four are averaged. Where an atom is many elements there are only a few
    // terms, and sixteen errors of shorter means are averaged.
    const int means = transforms(expression) ? 16 : 4;
    const int few = transforms(expression) ? 16 : 32;
    double of_few = 0, of_many = 0;
    for (int i = 0; i < means; ++i) {
      of_few += square_error(few);
      of_many += square_error(few * few);
    }
    const double ratio = std::sqrt(of_few / of_many);
    const double expected = std::sqrt(few);
    const double slack = transforms(expression) ? 2 : 1.5;
    EXPECT_GT(ratio, expected / slack);
    EXPECT_LT(ratio, expected * slack);
  });
  EXPECT_GT(unbiased, 0);
}

}  // namespace
}  // namespace sotto::testing
