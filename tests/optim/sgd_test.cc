#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/layout.h"
#include "sotto/optim/sgd.h"
#include "tests/optim/random_vector.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using test::random_vector;
using test::Store;

void apply(Optimiser& optimiser, std::vector<float>& parameters, std::vector<float> gradient, double lr) {
  optimiser.apply(parameters, gradient, 0, lr);
}

// SGD as in torch's documentation, with its special first step, in doubles.
class Reference {
 public:
  Reference(const SgdOptions& options, const std::vector<float>& start)
      : options_(options), parameters_(start.begin(), start.end()), velocity_(start.size()) {}

  void step(const std::vector<float>& gradient, double lr) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double d = gradient[i];
      if (options_.weight_decay != 0) d += options_.weight_decay * parameters_[i];
      if (options_.momentum != 0) {
        velocity_[i] = steps_ > 0 ? options_.momentum * velocity_[i] + d : d;
        d = options_.nesterov ? d + options_.momentum * velocity_[i] : velocity_[i];
      }
      parameters_[i] -= lr * d;
    }
    ++steps_;
  }
  double at(std::size_t i) const { return parameters_[i]; }

 private:
  SgdOptions options_;
  std::vector<double> parameters_, velocity_;
  int steps_ = 0;
};

std::vector<SgdOptions> all_combinations() {
  std::vector<SgdOptions> all;
  for (const double momentum : {0.0, 0.5, 0.9}) {
    for (const double decay : {0.0, 0.01}) {
      all.push_back({momentum, false, decay});
      if (momentum > 0) all.push_back({momentum, true, decay});
    }
  }
  return all;
}

std::string text_of(const SgdOptions& options) { return record_options("sgd", options); }

TEST(Sgd, FollowsTheDocumentedRecurrence) {
  constexpr std::size_t size = 37;
  for (const SgdOptions& options : all_combinations()) {
    std::vector<float> parameters = random_vector(size, 0);
    Reference reference(options, parameters);
    const auto sgd = make_sgd(options, test::flat(size));
    for (std::uint64_t step = 1; step <= 8; ++step) {
      const double lr = 0.1 / static_cast<double>(step);
      std::vector<float> gradient = random_vector(size, step);
      sgd->apply(parameters, gradient, 0, lr);
      reference.step(gradient, lr);
      for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(parameters[i], reference.at(i), 2e-6) << text_of(options);
    }
  }
}

TEST(Sgd, ByHand) {
  // d = 2 + 0.5*4 = 4; v = 4; nesterov: 4 + 0.5*4 = 6; p = 4 - 0.25*6 = 2.5
  // d = 1 + 0.5*2.5 = 2.25; v = 2 + 2.25 = 4.25; 2.25 + 2.125 = 4.375; p = 2.5 - 1.09375
  const auto sgd = make_sgd({0.5, true, 0.5}, test::flat(1));
  std::vector<float> p{4.0F};
  apply(*sgd, p, {2.0F}, 0.25);
  EXPECT_EQ(p[0], 2.5F);
  apply(*sgd, p, {1.0F}, 0.25);
  EXPECT_EQ(p[0], 1.40625F);
}

// With asynchronous servers: the worker's side makes the momentum, the server's side only steps.
TEST(Sgd, ByHandWithSharesOfAStep) {
  // v = 2, offered 2 + 0.5*2 = 3; v = 0.5*2 + 1 = 2, offered 1 + 0.5*2 = 2. The decay of a step is 0.25/(1 - 0.5) =
  // 0.5.
  const auto sgd = make_sgd({0.5, false, 0.25}, test::flat(1));
  sgd->take_shares(0.5);
  std::vector<float> p{4.0F};
  for (const auto& [gradient, offered, after] : {std::tuple{2.0F, 3.0F, 2.75F}, {1.0F, 2.0F, 1.90625F}}) {
    std::vector<float> one{gradient};
    sgd->begin_step(0);
    EXPECT_EQ(sgd->offer(one, 0)[0], offered);
    sgd->apply(p, one, 0, 0.25);
    EXPECT_EQ(p[0], after);
  }
}

// f(x) = x^2 / 2. Four workers take turns, and each gradient is of the model that the worker got three updates ago.
// Momentum of all gradients together diverges from a rate of .14 on; with it in step, the limit is 3.8.
TEST(Sgd, BearsADelayWhereWorkersTakeTurns) {
  constexpr std::size_t workers = 4;
  const double rate = 0.7;
  std::vector<std::unique_ptr<Optimiser>> each;
  for (std::size_t i = 0; i < workers; ++i) {
    each.push_back(make_sgd({0.9}, test::flat(1)));
    each.back()->take_shares(1.0 / workers);
  }
  std::vector<float> model{1.0F};
  std::array<float, workers> seen{1.0F, 1.0F, 1.0F, 1.0F};
  for (std::size_t update = 0; update < 2000; ++update) {
    float& own = seen.at(update % workers);
    std::vector<float> gradient{own};
    each[update % workers]->offer(gradient, 0);
    each[0]->begin_step(update);
    each[0]->apply(model, gradient, 0, rate / workers);
    own = model[0];
  }
  EXPECT_NEAR(model[0], 0, 1e-3);
}

TEST(Sgd, ConstantGradientHasAClosedForm) {
  const double momentum = 0.9, lr = 0.01;
  const auto sgd = make_sgd({momentum, false, 0}, test::flat(1));
  std::vector<float> p{1.0F};
  double moved = 0;
  for (int k = 1; k <= 50; ++k) {
    apply(*sgd, p, {1.0F}, lr);
    moved += lr * (1 - std::pow(momentum, k)) / (1 - momentum);
    EXPECT_NEAR(p[0], 1 - moved, 1e-5 * (1 + moved));
  }
}

TEST(Sgd, WeightDecayAloneShrinksGeometrically) {
  const auto sgd = make_sgd({0, false, 0.5}, test::flat(1));
  std::vector<float> p{8.0F};
  for (int k = 1; k <= 10; ++k) apply(*sgd, p, {0.0F}, 0.5);
  EXPECT_NEAR(p[0], 8 * std::pow(0.75, 10), 1e-6);
}

TEST(Sgd, StretchByStretchIsTheSameAsWhole) {
  constexpr std::size_t size = 101;
  for (const SgdOptions& options : all_combinations()) {
    std::vector<float> whole = random_vector(size, 0), parts = whole;
    const auto a = make_sgd(options, test::flat(size));
    const auto b = make_sgd(options, test::flat(size));
    for (std::uint64_t step = 1; step <= 4; ++step) {
      std::vector<float> gradient = random_vector(size, step);
      a->apply(whole, gradient, 0, 0.1);
      for (const auto [begin, end] : {Range{70, size}, Range{16, 70}, Range{0, 16}}) {
        b->apply(std::span(parts).subspan(begin, end - begin), std::span(gradient).subspan(begin, end - begin), begin,
                 0.1);
      }
      EXPECT_EQ(std::memcmp(whole.data(), parts.data(), size * sizeof(float)), 0) << text_of(options);
    }
  }
}

TEST(Sgd, ZeroStaysZero) {  // padding
  const auto sgd = make_sgd({0.9, true, 0.1}, test::flat(16));
  std::vector<float> p(16, 0.0F);
  for (int k = 0; k < 3; ++k) apply(*sgd, p, std::vector<float>(16, 0.0F), 0.1);
  for (const float value : p) EXPECT_EQ(value, 0.0F);
}

TEST(Sgd, OffersTheGradientItself) {
  std::vector<float> gradient{1, 2, 3};
  const auto sgd = make_sgd({}, test::flat(3));
  EXPECT_EQ(sgd->offer(gradient, 0).data(), gradient.data());
  EXPECT_EQ(sgd->offer(gradient, 0).size(), gradient.size());
}

TEST(Sgd, ContinuesFromItsState) {
  constexpr std::size_t size = 33;
  for (const SgdOptions& options : all_combinations()) {
    std::vector<float> p = random_vector(size, 0);
    const auto first = make_sgd(options, test::flat(size));
    apply(*first, p, random_vector(size, 1), 0.1);
    Store store;
    first->visit_state(store);
    std::vector<float> q = p;
    const auto second = make_sgd(options, test::flat(size));
    store.reading = true;
    second->visit_state(store);
    apply(*first, p, random_vector(size, 2), 0.1);
    apply(*second, q, random_vector(size, 2), 0.1);
    EXPECT_EQ(std::memcmp(p.data(), q.data(), size * sizeof(float)), 0) << text_of(options);
    EXPECT_EQ(store.floats.at("velocity").size(), options.momentum == 0 ? 0 : size);
  }
}

TEST(Sgd, RefusesWhatHasNoMeaning) {
  EXPECT_FALSE((SgdOptions{0, true, 0}.problem().empty()));
  const auto sgd = make_sgd({}, test::flat(8));
  std::vector<float> p(8), g(8);
  EXPECT_THROW(sgd->apply(p, g, 1, 0.1), std::logic_error);
  EXPECT_THROW(sgd->apply(std::span(p).first(4), g, 0, 0.1), std::logic_error);
  EXPECT_THROW(sgd->apply(std::span(p).first(1), std::span(g).first(1), SIZE_MAX, 0.1), std::logic_error);
}

// A reader fills an empty vector with any length. Later steps would write beyond a shorter one.
TEST(Sgd, RefusesAVelocityOfAnotherLength) {
  const auto refusal = [](const SgdOptions& options, std::size_t read) {
    Store store;
    store.reading = true;
    store.floats["velocity"] = std::vector<float>(read, 1.0F);
    const auto sgd = make_sgd(options, test::flat(8));
    try {
      sgd->visit_state(store);
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("velocity"), std::string::npos) << error.what();
      std::vector<float> p(8), g(8);
      sgd->apply(p, g, 0, 0.1);  // as before
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refusal({.momentum = 0}, 3));
  EXPECT_TRUE(refusal({.momentum = 0}, 8));
  EXPECT_FALSE(refusal({.momentum = 0}, 0));
  EXPECT_TRUE(refusal({.momentum = 0.9}, 3));
  EXPECT_TRUE(refusal({.momentum = 0.9}, 0));
  EXPECT_FALSE(refusal({.momentum = 0.9}, 8));
}

}  // namespace
}  // namespace sotto
