// Checks ATOMO's probabilities against the paper's sorted form, and its variance against the formula, entry-wise and
// joint.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sotto/codec/select/atomo.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/kernels/matrix.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// Probabilities by sorting (methods of Wang et al., NeurIPS 2018, algorithm 1).
std::vector<double> sorted_probabilities(const std::vector<float>& energies, double s) {
  std::vector<std::size_t> order(energies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return std::abs(energies[a]) > std::abs(energies[b]); });
  std::vector<double> rest(energies.size() + 1);
  for (std::size_t i = energies.size(); i-- > 0;) rest[i] = rest[i + 1] + std::abs(double{energies[order[i]]});
  std::vector<double> p(energies.size());
  for (std::size_t i = 0; i < order.size() && rest[i] > 0; ++i) {
    if (std::abs(double{energies[order[i]]}) * s <= rest[i]) {
      for (std::size_t k = i; k < order.size(); ++k) p[order[k]] = std::abs(double{energies[order[k]]}) * s / rest[i];
      break;
    }
    p[order[i]] = 1;
    s -= 1;
  }
  return p;
}

std::vector<double> truncated_probabilities(const std::vector<float>& energies, double s) {
  double sum = 0;
  for (const float e : energies) sum += std::abs(double{e});
  std::vector<double> p;
  p.reserve(energies.size());
  for (const float e : energies) p.push_back(std::min(1.0, s * std::abs(double{e}) / sum));
  return p;
}

double variance_of(const std::vector<float>& energies, const std::vector<double>& p) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (energies[i] != 0) sum += double{energies[i]} * energies[i] * (1 / p[i] - 1);
  }
  return sum;
}

std::vector<float> draw(std::size_t n, std::uint64_t seed, const std::function<double(double)>& shape) {
  std::vector<float> values(n);
  Philox random(seed, Purpose::test);
  for (float& value : values) value = static_cast<float>(shape(random.normal()));
  return values;
}

TEST(WaterLevel, IsThatOfTheSortedForm) {
  const std::vector<std::function<double(double)>> shapes{
      [](double x) { return x; },
      [](double x) { return x * x * x * x * x; },
      [](double x) { return std::exp(8 * x); },
      [](double x) { return x > 1.5 ? 1e30 : x * 1e-3; },
      [](double x) { return std::abs(x) < 0.5 ? 0 : x; },
      [](double x) { return x > 0 ? 2.0 : -2.0; },
      [](double x) { return x * 1e-42; },
  };
  WaterLevel level;
  ThreadPool pool(1);
  for (const std::size_t n : {1U, 2U, 7U, 100U, 5000U}) {
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const auto energies = draw(n, 30 + k, shapes[k]);
      const auto count = static_cast<double>(n);
      for (const double s : {0.3, 1.0, 2.5, 0.01 * count, 0.3 * count, 0.9 * count, count, 3 * count}) {
        const std::size_t half = n / 2;  // two groups, as one vector
        const std::vector<Group> groups{{std::span(energies).first(half)}, {std::span(energies).subspan(half)}};
        const double found = level.find(pool, groups, s);
        const auto expected = sorted_probabilities(energies, s);
        for (std::size_t i = 0; i < n; ++i) {
          if (energies[i] == 0) continue;
          const double p = std::min(1.0, std::abs(double{energies[i]}) / found);
          ASSERT_NEAR(p, expected[i], 1e-6 * expected[i]) << "n " << n << " shape " << k << " s " << s << " i " << i;
        }
      }
    }
  }
  EXPECT_EQ(level.find(pool, {}, 3), 0);
}

// The mean square error over many draws. `slack` is how far it may be off: five standard errors, which chance exceeds
// once in a million.
struct Estimate {
  double mean = 0, slack = 0, atoms = 0;
};

Estimate square_error(const std::string& expression, const Input& input, int draws) {
  const auto codec = make_codec(read_stages(expression));
  double sum = 0;
  double squares = 0;
  double atoms = 0;
  for (int t = 0; t < draws; ++t) {
    const auto out = decode(*codec, input, encode(*codec, input, {.seed = 40, .step = static_cast<std::uint32_t>(t)}));
    const double error = square_distance(out, input.values);
    sum += error / draws;
    squares += error * error / draws;
    atoms += static_cast<double>(std::ranges::count_if(out, [](float x) { return x != 0; })) / draws;
  }
  return {sum, 5 * std::sqrt(std::max(squares - sum * sum, 0.0) / draws) + 1e-9 * sum, atoms};
}

TEST(Atomo, VarianceOfEntriesIsThatOfTheFormula) {
  // The example that shows what truncation costs.
  const Input six{"six", {{{"w", 0, {6}}}, 6}, {10, 3, 1, 0.5F, 0.3F, 0.2F}};
  const auto check = [&](const std::string& expression, const std::vector<double>& p, double variance) {
    const Estimate found = square_error(expression, six, 40000);
    EXPECT_NEAR(variance_of(six.values, p), variance, 0.05) << expression;
    EXPECT_NEAR(found.mean, variance_of(six.values, p), found.slack) << expression;
    EXPECT_NEAR(found.atoms, std::accumulate(p.begin(), p.end(), 0.0), 0.03) << expression;
  };
  check("atomo(2, dense=0)", sorted_probabilities(six.values, 2), 14.6);
  check("atomo(2, truncate, dense=0)", truncated_probabilities(six.values, 2), 27.1);
  check("atomo(3, dense=0)", sorted_probabilities(six.values, 3), 2.62);
  check("atomo(3, truncate, dense=0)", truncated_probabilities(six.values, 3), 14.6);
  check("atomo(3, uniform, dense=0)", std::vector<double>(6, 0.5), 110.38);

  const Input tails{"tails", {{{"w", 0, {200}}}, 200}, draw(200, 41, [](double x) { return x * x * x; })};
  double previous = 0;
  for (const char* p : {"waterfill", "truncate", "uniform"}) {
    const double found = square_error("atomo(10%, " + std::string(p) + ", dense=0)", tails, 2000).mean;
    EXPECT_GT(found, previous) << p;
    previous = found;
  }
}

// Norms of probability are known codecs: l2 is QSGD with one level, the largest is TernGrad without its clip.
TEST(Atomo, WithNormsItIsQsgdAndTernGrad) {
  const Input input{"tails", {{{"w", 0, {30}}}, 30}, draw(30, 42, [](double x) { return x * x * x; })};
  double l2 = std::sqrt(square_norm(input.values));
  const double most = std::abs(*std::ranges::max_element(input.values, {}, [](float x) { return std::abs(x); }));
  for (const auto& [ours, theirs, norm] : {std::tuple{"atomo(p=l2, dense=0)", "qsgd(bits=1, norm=l2)", l2},
                                           {"atomo(p=max, dense=0)", "qsgd(bits=1, norm=max)", most}}) {
    constexpr int draws = 20000;
    for (const char* expression : {ours, theirs}) {
      const auto codec = make_codec(read_stages(expression));
      std::vector<double> share(input.values.size());
      for (int t = 0; t < draws; ++t) {
        const auto out =
            decode(*codec, input, encode(*codec, input, {.seed = 43, .step = static_cast<std::uint32_t>(t)}));
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (out[i] == 0) continue;
          share[i] += 1.0 / draws;
          ASSERT_NEAR(out[i], std::copysign(norm, input.values[i]), 1e-4 * norm) << expression;
        }
      }
      for (std::size_t i = 0; i < share.size(); ++i) {
        const double p = std::abs(input.values[i]) / norm;
        EXPECT_NEAR(share[i], p, 5 * std::sqrt(p * (1 - p) / draws) + 1e-4) << expression;
      }
    }
  }
}

TEST(Atomo, DenseSegmentsGoWhole) {
  const Layout layout({{"bias", 0, {7}}, {"longer", 7, {8}}, {"matrix", 15, {1, 7}}}, 22);
  const Input input{"segments", layout, gaussian(layout, 44)};
  for (const char* expression : {"atomo(1, dense=7)", "atomo(2, scope=bucket, dense=7)"}) {
    const auto codec = make_codec(read_stages(expression));
    int others = 0;
    for (std::uint32_t step = 0; step < 50; ++step) {
      const auto out = decode(*codec, input, encode(*codec, input, {.step = step}));
      for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(out[i], input.values[i]);
      for (std::size_t i = 7; i < 22; ++i) others += out[i] != 0 ? 1 : 0;
    }
    EXPECT_LT(others, 150) << expression;  // on average two a draw; within 7 standard deviations
    EXPECT_GT(others, 50) << expression;
  }
}

TEST(Atomo, PiecesOfLongSegmentsAreNotDense) {
  const Layout layout({{"long", 0, {100}}, {"matrix", 100, {10, 10}}}, 200);
  const Input input{"segments", layout, gaussian(layout, 47)};
  const auto codec = make_codec(read_stages("atomo(10%, dense=20)"));
  double sent = 0;
  for (std::uint32_t step = 0; step < 50; ++step) {
    const std::vector<Range> parts{{0, 10}, {10, 105}, {105, 200}};
    std::vector<Message> messages(parts.size());
    std::vector<float> values = input.values;
    codec->encode({values, &layout}, {.step = step}, {}, parts, messages);
    std::vector<float> out(200);
    for (std::size_t i = 0; i < parts.size(); ++i) add_part(*codec, layout, parts[i], messages[i].bytes(), 1, out);
    sent += static_cast<double>(std::ranges::count_if(out, [](float x) { return x != 0; })) / 50;
  }
  EXPECT_NEAR(sent, 20, 5);
}

TEST(Atomo, AnswersForItsOptions) {
  const auto error = [](const std::string& expression) -> std::string {
    try {
      make_codec(read_stages(expression));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error("atomo").find("s is missing"), std::string::npos);
  EXPECT_NE(error("atomo(0)").find("s must be above 0"), std::string::npos);
  EXPECT_NE(error("atomo(-5%)").find("s must be above 0"), std::string::npos);
  EXPECT_NE(error("atomo(0.05)").find("written as in s=5%"), std::string::npos);
  EXPECT_NE(error("atomo(101%)").find("at most 100%"), std::string::npos);
  EXPECT_NE(error("atomo(many)").find("s must be a number"), std::string::npos) << error("atomo(many)");
  EXPECT_NE(error("atomo(3, p=max)").find("p=max has no s"), std::string::npos);
  EXPECT_NE(error("atomo(3, p=least)").find("p must be one of"), std::string::npos) << error("atomo(3, p=least)");
  EXPECT_NE(error("svd | atomo(3) | atomo(9, scope=bucket)").find("from each factor by itself"), std::string::npos);
  EXPECT_NE(error("dct | atomo(3) | topk(0.5)").find("a second select stage"), std::string::npos);
  EXPECT_NE(error("svd | atomo(3) | topk(0.5) | topk(0.1)").find("a second select stage"), std::string::npos);
  EXPECT_EQ(make_codec(read_stages("atomo(5%)"))->traits().text,
            "atomo(s=5%, p=waterfill, scope=segment, dense=1024) | f32");
}

// A matrix with known singular triplets, so that the losses of spectral and joint forms have closed forms.
class Spectral : public ::testing::Test {
 protected:
  static constexpr std::size_t rows = 12, cols = 9, rank = 5;

  Spectral()
      : left_(draw(rank * rows, 45, [](double x) { return x * x * x; })),
        right_(draw(rank * cols, 46, [](double x) { return x; })) {
    kernels::orthonormalise({left_.data(), rank, rows}, rows);
    kernels::orthonormalise({right_.data(), rank, cols}, cols);
    input_ = {"matrix", {{{"w", 0, {rows, cols}}}, rows * cols}, std::vector<float>(rows * cols)};
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < cols; ++j) {
          input_.values[i * cols + j] += sigma_[k] * left_[k * rows + i] * right_[k * cols + j];
        }
      }
    }
  }

  // E|C(x)-x|^2 where atoms are sent with probabilities p, and noise(f) is the mean square error of a sent factor f of
  // length 1.
  double variance(const std::vector<double>& p, const std::function<double(std::span<const float>)>& noise) const {
    double sum = 0;
    for (std::size_t k = 0; k < rank; ++k) {
      const double u = noise(std::span(left_).subspan(k * rows, rows));
      const double v = noise(std::span(right_).subspan(k * cols, cols));
      sum += double{sigma_[k]} * sigma_[k] * ((1 + u) * (1 + v) / p[k] - 1);
    }
    return sum;
  }

  void expect_variance(const std::string& expression, double variance) const {
    const Estimate found = square_error(expression, input_, 10000);
    EXPECT_NEAR(found.mean, variance, found.slack) << expression;
    EXPECT_GT(variance, 10 * found.slack);  // the estimate is precise enough to tell
  }

  std::vector<float> left_, right_;
  std::vector<float> sigma_{5, 3, 2, 1, 0.5F};
  Input input_;
};

TEST_F(Spectral, VarianceIsThatOfTheFormula) {
  expect_variance("svd | atomo(s=3)", variance_of(sigma_, sorted_probabilities(sigma_, 3)));
  expect_variance("svd | atomo(s=2, p=truncate)", variance_of(sigma_, truncated_probabilities(sigma_, 2)));
  // The original code calls this rank 0.
  expect_variance("svd | atomo(p=max)", variance_of(sigma_, {1, 0.6, 0.4, 0.2, 0.1}));
}

// The matrix is so large that an inexact decomposition does not reach the least variance, which singular values give.
TEST(SpectralAtomo, IsOfLeastVarianceAbove64Rows) {
  constexpr std::size_t rows = 96, cols = 120;
  Input input{"1/i", {{{"w", 0, {rows, cols}}}, rows * cols}, std::vector<float>(rows * cols)};
  auto left = draw(rows * rows, 47, [](double x) { return x; });
  auto right = draw(rows * cols, 48, [](double x) { return x; });
  kernels::orthonormalise({left.data(), rows, rows}, rows);
  kernels::orthonormalise({right.data(), rows, cols}, cols);
  std::vector<float> sigma(rows);
  for (std::size_t k = 0; k < rows; ++k) {
    sigma[k] = 1 / static_cast<float>(k + 1);
    kernels::add_outer(sigma[k], {left.data() + k * rows, 1, rows}, {right.data() + k * cols, 1, cols}, rows, cols,
                       input.values);
  }
  const double least = variance_of(sigma, sorted_probabilities(sigma, 3));
  const Estimate found = square_error("svd | atomo(s=3)", input, 3000);
  EXPECT_NEAR(found.mean, least, found.slack);
  EXPECT_GT(0.2 * least, found.slack);
}

TEST_F(Spectral, QuantisedSingularVectors) {
  const auto noise = [](std::span<const float> f) {  // qsgd with norm=max: (norm / S)^2 frac (1 - frac)
    double most = 0;
    for (const float x : f) most = std::max(most, std::abs(double{x}));
    double sum = 0;
    for (const float x : f) {
      const double y = std::abs(double{x}) / most * 15;
      sum += most * most / 225 * (y - std::floor(y)) * (1 - y + std::floor(y));
    }
    return sum;
  };
  expect_variance("svd | atomo(s=3) | qsgd(4)", variance(sorted_probabilities(sigma_, 3), noise));
}

TEST_F(Spectral, SparsifiedSingularVectors) {
  const auto noise = [](std::span<const float> f) {
    const std::vector<float> factor(f.begin(), f.end());
    return variance_of(factor, sorted_probabilities(factor, 0.4 * static_cast<double>(factor.size())));
  };
  expect_variance("svd | atomo(s=3) | atomo(s=40%)", variance(sorted_probabilities(sigma_, 3), noise));
}

// With denormals, 1 / level is more than a float holds. Probabilities must be the same as for other numbers.
TEST(Atomo, DrawsDenormalsAsOftenAsOtherNumbers) {
  const Layout layout({{"w", 0, {4, 5}}}, 20);
  Input input{"denormals", layout, gaussian(layout, 5, 1e-40F)};
  const auto all = make_codec(read_stages("atomo(s=100%)"));
  EXPECT_EQ(decode(*all, input, encode(*all, input)), input.values);
  const auto some = make_codec(read_stages("atomo(s=5, p=truncate)"));
  double sent = 0;
  constexpr std::uint32_t steps = 400;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto decoded = decode(*some, input, encode(*some, input, {.step = step}));
    sent += static_cast<double>(20 - std::ranges::count(decoded, 0.0F)) / steps;
  }
  EXPECT_GT(sent, 4);  // s = 5, less where probabilities are cut at 1
  EXPECT_LT(sent, 5.1);
}

}  // namespace
}  // namespace sotto::testing
