#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"
#include "tests/optim/random_vector.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using test::message_of;
using test::random_vector;

// All elements but the last make a matrix; the last is a vector.
Layout tensors(std::size_t size) {
  const auto most = static_cast<std::int64_t>(size) - 1;
  std::vector<Segment> segments{{"bias", size - 1, {1}}};
  if (most > 0) segments.insert(segments.begin(), {"weight", 0, {1, most}});
  return {segments, size};
}

// Expressions that together cover every entry of the table, and every branch of each.
std::vector<std::string> expressions() {
  std::vector<std::string> all{"sgd(momentum=0)",
                               "sgd(nesterov=true, weight-decay=0.01)",
                               "sgd(dampening=0.5)",
                               "adam(weight-decay=0.1)",
                               "adamw(amsgrad=true)",
                               "adagrad(lr-decay=0.1, start=0.5, weight-decay=0.1)",
                               "dgc(weight-decay=0.1)",
                               "signum(momentum=0, weight-decay=0.1)",
                               "dgc(nesterov=true, weight-decay=0.1)",
                               "sign(weight-decay=0.1)",
                               "onebit-adam(warmup=2, weight-decay=0.1)",
                               "lars(momentum=0)",
                               "lars(weight-decay=0.1, adapt-vectors=true)",
                               "lamb(weight-decay=0.1)",
                               "lamb(bias-correction=false, adapt-vectors=true)"};
  for (const OptimiserEntry& entry : optimiser_table()) all.emplace_back(entry.name);
  return all;
}

// A step of a single rank, stretch by stretch: the mean is what it offers.
void step(Optimiser& optimiser, std::vector<float>& parameters, std::vector<float> gradient, std::uint64_t number,
          std::span<const Range> stretches, double lr = 0.1) {
  optimiser.begin_step(number);
  for (const Range& range : stretches) {
    const auto part = std::span(gradient).subspan(range.begin, range.size());
    const auto offered = optimiser.offer(part, range.begin);
    if (offered.data() != part.data()) std::ranges::copy(offered, part.begin());
  }
  for (const Range& range : stretches) {
    optimiser.apply(std::span(parameters).subspan(range.begin, range.size()),
                    std::span(gradient).subspan(range.begin, range.size()), range.begin, lr);
  }
}

void step(Optimiser& optimiser, std::vector<float>& parameters, const std::vector<float>& gradient,
          std::uint64_t number, double lr = 0.1) {
  const Range whole{0, parameters.size()};
  step(optimiser, parameters, gradient, number, {&whole, 1}, lr);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Optimisers, HaveCanonicalTextsThatNameEveryOption) {
  for (const std::string& expression : expressions()) {
    const OptimiserSpec spec = test::optimiser(expression);
    const std::string canonical = spec.text();
    EXPECT_EQ(test::optimiser(canonical).text(), canonical);
    const Expression parsed = parse_expression("optimiser", canonical);
    std::vector<std::string> named;
    for (const Argument& argument : parsed.calls.front().arguments) named.push_back(argument.key);
    EXPECT_EQ(named, names_of_options(spec.entry->options())) << canonical;
  }
}

TEST(Optimisers, RefuseWhatTheyAreNot) {
  const auto refusal = [](const char* expression) {
    return message_of([&] { make_optimiser(test::optimiser(expression), tensors(4)); });
  };
  EXPECT_NE(refusal("adamm").find("unknown optimiser `adamm`; did you mean `adam`"), std::string::npos);
  EXPECT_NE(refusal("adam(beta3=0.1)").find("unknown option `beta3`"), std::string::npos);
  EXPECT_NE(refusal("adam(beta1=1)").find("beta1 must be in [0, 1)"), std::string::npos);
  EXPECT_NE(refusal("sgd(momentum=0, nesterov=true)").find("momentum is 0"), std::string::npos);
  EXPECT_NE(refusal("sgd | adam").find("a single call"), std::string::npos);
  EXPECT_NE(refusal("onebit-adam(warmup=0)").find("warmup must be in"), std::string::npos);
  EXPECT_NE(refusal("").find("optimiser"), std::string::npos);
}

TEST(Optimisers, ContinueFromTheirState) {
  constexpr std::size_t size = 33;
  for (const std::string& expression : expressions()) {
    for (const std::uint64_t saved : {1U, 2U, 4U}) {  // before and after a freeze
      std::vector<float> p = random_vector(size, 0);
      const auto first = make_optimiser(test::optimiser(expression), tensors(size));
      for (std::uint64_t t = 0; t < saved; ++t) step(*first, p, random_vector(size, 1 + t), t);
      std::vector<float> q = p;
      const auto second = make_optimiser(test::optimiser(expression), tensors(size));
      test::hand_over(*first, *second);
      for (std::uint64_t t = saved; t < 6; ++t) {
        step(*first, p, random_vector(size, 1 + t), t);
        step(*second, q, random_vector(size, 1 + t), t);
        EXPECT_TRUE(same(p, q)) << expression << " from step " << saved;
      }
    }
  }
}

TEST(Optimisers, RefuseAStateOfAnotherLength) {
  for (const std::string& expression : expressions()) {
    const auto optimiser = make_optimiser(test::optimiser(expression), tensors(8));
    test::Store store;
    optimiser->visit_state(store);
    store.reading = true;
    for (auto& [name, values] : store.floats) {
      const auto kept = values;
      values.push_back(1);
      EXPECT_THROW(optimiser->visit_state(store), FileError) << expression << " " << name;
      values = kept;
    }
  }
}

TEST(Optimisers, StretchByStretchIsTheSameAsWhole) {
  constexpr std::size_t size = 101;
  const std::vector<Range> stretches{{70, size}, {16, 70}, {0, 16}};
  const Layout layout({{"first", 0, {4, 4}}, {"second", 16, {54}}, {"third", 70, {31, 1}}}, size);
  for (const std::string& expression : expressions()) {
    std::vector<float> whole = random_vector(size, 0), parts = whole;
    const auto a = make_optimiser(test::optimiser(expression), layout);
    const auto b = make_optimiser(test::optimiser(expression), layout);
    for (std::uint64_t t = 0; t < 5; ++t) {
      step(*a, whole, random_vector(size, 1 + t), t);
      step(*b, parts, random_vector(size, 1 + t), t, stretches);
      EXPECT_TRUE(same(whole, parts)) << expression;
    }
  }
}

TEST(Optimisers, SayWhatMakesTheirBuffers) {
  for (const std::string& expression : expressions()) {
    for (const double share : {1.0, 0.5}) {
      if (share < 1 && expression == "adam(weight-decay=0.1)") continue;  // refused
      const auto optimiser = make_optimiser(test::optimiser(expression), tensors(8));
      optimiser->take_shares(share);
      const auto buffers = [&] {
        test::Store store;
        optimiser->visit_buffers(store);
        return store.floats;
      };
      std::vector<float> p = random_vector(8, 0), g = random_vector(8, 1);
      optimiser->begin_step(0);
      const auto before = buffers();
      const auto offered = optimiser->offer(g, 0);
      const auto after = buffers();
      std::vector<float> mean(offered.begin(), offered.end());
      optimiser->apply(p, mean, 0, 0.1);
      EXPECT_TRUE(after == (optimiser->offer_makes_buffers() ? buffers() : before)) << expression << ", " << share;
    }
  }
}

TEST(Optimisers, LeaveZeroAtZero) {  // padding
  for (const std::string& expression : expressions()) {
    const auto optimiser = make_optimiser(test::optimiser(expression), tensors(16));
    std::vector<float> p(16, 0.0F);
    for (std::uint64_t t = 0; t < 5; ++t) step(*optimiser, p, std::vector<float>(16, 0.0F), t);
    EXPECT_EQ(p, std::vector<float>(16, 0.0F)) << expression;
  }
}

TEST(Optimisers, RefuseAStretchOfNothing) {
  for (const std::string& expression : expressions()) {
    const auto optimiser = make_optimiser(test::optimiser(expression), tensors(8));
    std::vector<float> p(8), g(8);
    EXPECT_THROW(optimiser->apply(p, g, 1, 0.1), std::logic_error) << expression;
    EXPECT_THROW(optimiser->apply(std::span(p).first(4), g, 0, 0.1), std::logic_error) << expression;
    EXPECT_THROW(optimiser->apply(std::span(p).first(1), std::span(g).first(1), SIZE_MAX, 0.1), std::logic_error);
  }
}

// Numbers of torch 2.13 for p = [1, -.5, .25, 2], lr .1, and four steps with the gradient [.5, -1, .125, 3] * (t even ?
// 1 : -.5) + t/4 in step t.
TEST(Adam, IsTorchs) {
  const auto after = [](const char* expression) {
    std::vector<float> p{1.0F, -0.5F, 0.25F, 2.0F};
    const auto adam = make_optimiser(test::optimiser(expression), tensors(p.size()));
    for (int t = 0; t < 4; ++t) {
      std::vector<float> g{0.5F, -1.0F, 0.125F, 3.0F};
      for (float& value : g) value = value * (t % 2 == 0 ? 1.0F : -0.5F) + 0.25F * static_cast<float>(t);
      step(*adam, p, g, static_cast<std::uint64_t>(t));
    }
    return p;
  };
  const auto expect = [&](const char* expression, const std::vector<float>& wanted) {
    const auto found = after(expression);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 4e-7) << expression << " " << i;
  };
  expect("adam", {0.6689279079437256F, -0.38239216804504395F, -0.12591718137264252F, 1.7594887018203735F});
  expect("adam(beta1=0.8, beta2=0.95, eps=1e-3, weight-decay=0.1)",
         {0.6502344608306885F, -0.38422200083732605F, -0.13537949323654175F, 1.7501806020736694F});
  expect("adamw(weight-decay=0.1)",
         {0.6346304416656494F, -0.36613956093788147F, -0.12996575236320496F, 1.6849547624588013F});
}

// Gradients that are mostly noise: each of four workers' makes an update at a quarter of the rate, or all four make
// one. Both go as far, within 5 %; without the shares in mind the updates would go half as far.
TEST(Adam, GoesAsFarWithSharesOfAStep) {
  constexpr std::size_t size = 2000, workers = 4, steps = 400;
  for (const char* expression : {"adam", "adamw(weight-decay=0)", "adam(beta1=0.8)"}) {
    std::vector<std::unique_ptr<Optimiser>> shared;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      shared.push_back(make_optimiser(test::optimiser(expression), tensors(size)));
      shared.back()->take_shares(1.0 / workers);
    }
    const auto whole = make_optimiser(test::optimiser(expression), tensors(size));
    std::vector<float> a(size), b(size);
    for (std::uint64_t round = 0; round < steps; ++round) {
      std::vector<float> mean(size);
      for (std::uint64_t worker = 0; worker < workers; ++worker) {
        std::vector<float> gradient = random_vector(size, round * workers + worker);
        for (std::size_t i = 0; i < size; ++i) {
          gradient[i] += 0.1F;
          mean[i] += gradient[i] / workers;
        }
        auto& own = *shared[worker];
        own.begin_step(round);
        own.apply(a, own.offer(gradient, 0), 0, 0.001 / workers);
      }
      whole->begin_step(round);
      whole->apply(b, mean, 0, 0.001);
    }
    EXPECT_NEAR(std::reduce(a.begin(), a.end()) / std::reduce(b.begin(), b.end()), 1, 0.05) << expression;
  }
}

TEST(Adam, RefusesADecayOfGradientsThatServersDoNotSee) {
  const auto adam = make_optimiser(test::optimiser("adam(weight-decay=0.1)"), tensors(8));
  adam->take_shares(1);
  const std::string why = message_of([&] { adam->take_shares(0.5); });
  EXPECT_NE(why.find("take adamw, or leave weight-decay out"), std::string::npos) << why;
}

// By the formulas of adam.h, in Python. In the first two steps the running mean has more noise than a mean of two.
TEST(Adam, ByHandWithSharesOfAStep) {
  const auto adam = make_optimiser(test::optimiser("adamw(weight-decay=0.5)"), tensors(1));
  adam->take_shares(0.5);
  std::vector<float> p{4.0F};
  std::uint64_t step = 0;
  for (const auto& [gradient, direction] : {std::pair(2.0F, 1.4736842F), {-1.0F, -0.1803836F}, {0.5F, 0.4165580F}}) {
    std::vector<float> one{gradient};
    adam->begin_step(step++);
    EXPECT_NEAR(adam->offer(one, 0)[0], direction, 1e-6);
    const float before = p[0];
    adam->apply(p, one, 0, 0.25);
    EXPECT_NEAR(p[0], 0.875F * before - 0.25F * direction, 1e-6);
  }
}

// Their squares are infinite, and the step is zero as torch's is, not NaN.
TEST(Adam, TakesGradientsWhoseSquaresAreNoFloats) {
  const auto optimiser = make_optimiser(test::optimiser("adam"), test::flat(2));
  std::vector<float> parameters{1, 1}, gradient{1e30F, 1};
  optimiser->begin_step(0);
  optimiser->apply(parameters, gradient, 0, 0.1);
  EXPECT_EQ(parameters[0], 1);
  EXPECT_LT(parameters[1], 1);
}

TEST(Dgc, DecayHasAMomentumOfItsOwn) {
  // d = .5*0 + .1*2 = .2; p = 2 - .5*(1 + .2) = 1.4;  d = .5*.2 + .1*1.4 = .24; p = 1.4 - .5*(3 + .24) = -.22
  const auto dgc = make_optimiser(test::optimiser("dgc(weight-decay=0.1, decay-momentum=0.5)"), tensors(1));
  std::vector<float> p{2.0F};
  step(*dgc, p, {1.0F}, 0, 0.5);
  EXPECT_NEAR(p[0], 1.4, 1e-6);
  step(*dgc, p, {3.0F}, 1, 0.5);
  EXPECT_NEAR(p[0], -0.22, 1e-6);
}

TEST(Dgc, IsSgdWhereTheGradientsHaveTheirMomentum) {
  for (const bool nesterov : {false, true}) {
    const std::string more = nesterov ? "nesterov=true, weight-decay=0.1" : "weight-decay=0.1";
    const auto dgc = make_optimiser(test::optimiser("dgc(" + more + ")"), tensors(1));
    const auto sgd = make_optimiser(test::optimiser("sgd(" + more + ")"), tensors(1));
    std::vector<float> p{2.0F}, q = p;
    float u = 0;
    for (std::uint64_t number = 0; number < 5; ++number) {
      const auto g = static_cast<float>(number) - 1.5F;
      u = 0.9F * (nesterov ? u + g : u) + (nesterov ? 0 : g);  // as the memory `momentum`
      step(*dgc, p, {nesterov ? u + g : u}, number, 0.3);
      step(*sgd, q, {g}, number, 0.3);
      EXPECT_NEAR(p[0], q[0], 1e-5) << more << " after step " << number;
    }
  }
}

TEST(Signum, OffersTheSignsOfItsMomentum) {
  const auto signum = make_optimiser(test::optimiser("signum(momentum=0.5)"), tensors(4));
  std::vector<float> first{2.0F, -3.0F, 0.0F, 1.0F};  // momentum 1, -1.5, 0, .5
  EXPECT_TRUE(std::ranges::equal(signum->offer(first, 0), std::vector<float>{1, -1, 0, 1}));
  std::vector<float> second{-0.5F, 1.0F, -1.0F, -2.0F};  // .25, -.25, -.5, -.75
  EXPECT_TRUE(std::ranges::equal(signum->offer(second, 0), std::vector<float>{1, -1, -1, -1}));
  std::vector<float> p{1, 1, 1, 1};
  std::vector<float> mean{1, -1, 0, 0.5};
  signum->apply(p, mean, 0, 0.25);
  EXPECT_EQ(p, (std::vector<float>{0.75, 1.25, 1, 0.875}));
  std::vector<float> bad{1, std::numeric_limits<float>::infinity(), std::nanf(""), 1};
  const auto offered = signum->offer(bad, 0);
  EXPECT_FALSE(std::isfinite(offered[1]) || std::isfinite(offered[2])) << "somebody has to find it";
}

TEST(SignStep, TakesTheSign) {
  const auto sign = make_optimiser(test::optimiser("sign(weight-decay=0.5)"), tensors(3));
  std::vector<float> p{1, 1, 2}, mean{1e-30F, -7, 0};
  sign->apply(p, mean, 0, 0.5);  // p * .75 - .5 * sign
  EXPECT_EQ(p, (std::vector<float>{0.25, 1.25, 1.5}));
}

// Compared with doubles, on two ranks; offers are averaged without loss.
TEST(OneBitAdam, IsAdamAtFirstAndThenKeepsItsVariance) {
  constexpr std::size_t size = 9;
  constexpr std::uint64_t warmup = 3;
  const double lr = 0.01, decay = 0.1;
  const auto a = make_optimiser(test::optimiser("onebit-adam(warmup=3, eps=1e-8, weight-decay=0.1)"), tensors(size));
  const auto b = make_optimiser(test::optimiser("onebit-adam(warmup=3, eps=1e-8, weight-decay=0.1)"), tensors(size));
  const auto adam = make_optimiser(test::optimiser("adamw(weight-decay=0.1)"), tensors(size));
  EXPECT_EQ(a->dense_steps(), warmup);
  std::vector<float> p = random_vector(size, 0), q = p, r = p;
  std::vector<double> x(p.begin(), p.end()), m(size), v(size);
  for (std::uint64_t t = 0; t < 8; ++t) {
    std::vector<float> g = random_vector(size, 1 + t), h = random_vector(size, 100 + t), mean(size);
    if (t < warmup) g[4] = h[4] = 0;  // no variance, so the parameter stays
    for (std::size_t i = 0; i < size; ++i) {
      const double both = 0.5 * (g[i] + static_cast<double>(h[i]));
      m[i] = 0.9 * m[i] + 0.1 * both;
      if (t < warmup) v[i] = 0.999 * v[i] + 0.001 * both * both;
      if (v[i] == 0) m[i] = 0;
      x[i] *= 1 - lr * decay;
      x[i] -= lr * m[i] / (1 - std::pow(0.9, t + 1)) /
              (std::sqrt(v[i] / (1 - std::pow(0.999, std::min(t + 1, warmup)))) + 1e-8);
    }
    a->begin_step(t);
    b->begin_step(t);
    const auto one = a->offer(g, 0), two = b->offer(h, 0);
    for (std::size_t i = 0; i < size; ++i) mean[i] = 0.5F * (one[i] + two[i]);
    a->apply(p, mean, 0, lr);
    b->apply(r, mean, 0, lr);
    EXPECT_TRUE(same(p, r));
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(p[i], x[i], 2e-5) << "step " << t << ", " << i;
    if (t >= warmup) continue;
    adam->begin_step(t);
    adam->apply(q, mean, 0, lr);
    EXPECT_TRUE(same(p, q)) << "plain Adam in step " << t;
  }
}

}  // namespace
}  // namespace sotto
