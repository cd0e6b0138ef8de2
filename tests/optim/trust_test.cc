// Compares LARS and LAMB with their formulas in doubles.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/core/random.h"
#include "sotto/optim/optimiser.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using Numbers = std::vector<double>;

// A matrix, a vector, a tensor that starts at zero, and one whose gradient is zero, each followed by padding.
Layout four_tensors() {
  Layout layout;
  layout.append("matrix", {3, 4});
  layout.append("vector", {5});
  layout.append("zero", {2, 2});
  layout.append("still", {2, 3, 1});
  return layout;
}

std::vector<float> noise(const Layout& layout, std::uint64_t index, const std::string& without) {
  Philox random(7, Purpose::test, index);
  std::vector<float> values(layout.size());
  for (const Segment& segment : layout.segments()) {
    for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
      values[i] = segment.name == without ? 0.0F : static_cast<float>(random.normal());
    }
  }
  return values;
}

double length(const Numbers& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// Advances one tensor in step t = 1, 2, ...; if `plain`, without trust ratio and decay.
using Formula =
    std::function<void(Numbers& p, const Numbers& g, Numbers& first, Numbers& second, double lr, int t, bool plain)>;

void expect_formula(const std::string& expression, bool adapts_vectors, const Formula& formula) {
  const Layout layout = four_tensors();
  std::vector<float> p = noise(layout, 0, "zero");
  const auto optimiser = make_optimiser(test::optimiser(expression), layout);
  EXPECT_TRUE(optimiser->needs_whole_tensors());
  std::vector<Numbers> x, first, second;
  for (const Segment& segment : layout.segments()) {
    x.emplace_back(p.begin() + segment.offset, p.begin() + segment.range().end);
    first.emplace_back(segment.numel());
    second.emplace_back(segment.numel());
  }
  for (int t = 1; t <= 8; ++t) {
    const double lr = 0.1 / t;
    std::vector<float> g = noise(layout, static_cast<std::uint64_t>(t), "still");
    for (std::size_t s = 0; s < x.size(); ++s) {
      const Segment& segment = layout.segments()[s];
      formula(x[s], Numbers(g.begin() + segment.offset, g.begin() + segment.range().end), first[s], second[s], lr, t,
              segment.shape.size() == 1 && !adapts_vectors);
    }
    optimiser->begin_step(static_cast<std::uint64_t>(t - 1));
    optimiser->apply(p, g, 0, lr);
    for (std::size_t s = 0; s < x.size(); ++s) {
      const Segment& segment = layout.segments()[s];
      for (std::size_t i = 0; i < segment.numel(); ++i) {
        EXPECT_NEAR(p[segment.offset + i], x[s][i], 2e-6) << expression << ", " << segment.name << " in step " << t;
      }
    }
  }
  for (std::size_t i = layout.segments()[0].range().end; i < layout.segments()[1].offset; ++i) EXPECT_EQ(p[i], 0);
}

Formula lars(double momentum, double decay, double trust, double eps) {
  return [=](Numbers& p, const Numbers& g, Numbers& v, Numbers& /*none*/, double lr, int /*t*/, bool plain) {
    const double own = plain ? 0 : decay;
    double ratio = 1;
    if (!plain && length(p) > 0 && length(g) > 0) ratio = trust * length(p) / (length(g) + decay * length(p) + eps);
    for (std::size_t i = 0; i < p.size(); ++i) {
      v[i] = momentum * v[i] + lr * ratio * (g[i] + own * p[i]);
      p[i] -= v[i];
    }
  };
}

TEST(Lars, FollowsItsFormula) {
  expect_formula("lars(trust=0.5)", false, lars(0.9, 0, 0.5, 1e-8));
  expect_formula("lars(momentum=0, weight-decay=0.1, trust=1, eps=0.01)", false, lars(0, 0.1, 1, 0.01));
  expect_formula("lars(momentum=0.5, weight-decay=0.1, trust=2, adapt-vectors=true)", true, lars(0.5, 0.1, 2, 1e-8));
}

Formula lamb(double beta1, double beta2, double eps, double decay, bool corrects) {
  return [=](Numbers& p, const Numbers& g, Numbers& m, Numbers& v, double lr, int t, bool plain) {
    Numbers u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double mean = corrects ? m[i] / (1 - std::pow(beta1, t)) : m[i];
      const double square = corrects ? v[i] / (1 - std::pow(beta2, t)) : v[i];
      u[i] = mean / (std::sqrt(square) + eps) + (plain ? 0 : decay) * p[i];
    }
    const double ratio = plain || length(p) == 0 || length(u) == 0 ? 1 : length(p) / length(u);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= lr * ratio * u[i];
  };
}

TEST(Lamb, FollowsItsFormula) {
  expect_formula("lamb", false, lamb(0.9, 0.999, 1e-6, 0, true));
  expect_formula("lamb(beta1=0.5, beta2=0.9, eps=0.01, weight-decay=0.1, bias-correction=false)", false,
                 lamb(0.5, 0.9, 0.01, 0.1, false));
  expect_formula("lamb(weight-decay=0.1, adapt-vectors=true)", true, lamb(0.9, 0.999, 1e-6, 0.1, true));
}

TEST(TrustRatios, RefuseACutTensor) {
  const Layout layout = four_tensors();
  for (const char* expression : {"lars", "lamb"}) {
    const auto optimiser = make_optimiser(test::optimiser(expression), layout);
    std::vector<float> p(layout.size()), g(layout.size());
    const auto apply = [&](std::size_t begin, std::size_t size) {
      optimiser->apply(std::span(p).subspan(begin, size), std::span(g).subspan(begin, size), begin, 0.1);
    };
    EXPECT_THROW(apply(0, 8), std::logic_error) << expression;
    EXPECT_THROW(apply(4, 28), std::logic_error) << expression;
    EXPECT_NO_THROW(apply(0, 12)) << expression << ": without its padding";
    EXPECT_NO_THROW(apply(16, 32)) << expression;
    EXPECT_NO_THROW(apply(12, 4)) << expression << ": padding alone";
  }
}

}  // namespace
}  // namespace sotto
