#include "sotto/optim/parameter_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sotto/core/random.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using test::message_of;

Layout network() {
  Layout layout;
  for (const char* name : {"conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias"}) layout.append(name, {2, 5});
  layout.append("head.weight", {3, 20});
  layout.append("head.bias", {3});
  return layout;
}

std::vector<ParameterGroup> groups_of(const std::string& text, const char* optimiser = "sgd(momentum=0.9)") {
  return read_groups("group", text, test::optimiser(optimiser));
}

std::unique_ptr<Optimiser> grouped(const std::string& text, const std::string& optimiser) {
  const OptimiserSpec all = test::optimiser(optimiser);
  return make_grouped("group", read_groups("group", text, all), all, network());
}

// A vector of that layout, with zero padding.
std::vector<float> noise(std::uint64_t index) {
  const Layout layout = network();
  Philox random(7, Purpose::test, index);
  std::vector<float> values(layout.size());
  for (float& value : values) value = static_cast<float>(random.normal());
  layout.clear_padding(values);
  return values;
}

// Takes a step, bucket by bucket.
void step(Optimiser& optimiser, std::vector<float>& p, std::uint64_t number) {
  std::vector<float> g = noise(10 + number);
  optimiser.begin_step(number);
  const auto buckets = plan_buckets(network(), 200);
  EXPECT_GT(buckets.size(), 2U);
  const auto part = [](std::vector<float>& values, const Range& r) {
    return std::span(values).subspan(r.begin, r.size());
  };
  for (const BucketPlan& b : buckets) {
    const auto offered = optimiser.offer(part(g, b.range), b.range.begin);
    if (offered.data() != part(g, b.range).data()) std::ranges::copy(offered, part(g, b.range).begin());
  }
  for (const BucketPlan& b : buckets) optimiser.apply(part(p, b.range), part(g, b.range), b.range.begin, 0.1);
}

TEST(ParameterGroups, AreRead) {
  const auto groups = groups_of("*.bias, *norm*: weight-decay=0.5; head.*: lr-scale=0.1, momentum=0.5");
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].names(), "*.bias,*norm*");
  EXPECT_EQ(groups[0].optimiser.text(), "sgd(momentum=0.9, nesterov=false, weight-decay=0.5, dampening=0)");
  EXPECT_EQ(groups[0].lr_scale, 1);
  EXPECT_EQ(groups[1].optimiser.text(), "sgd(momentum=0.5, nesterov=false, weight-decay=0, dampening=0)");
  EXPECT_EQ(groups[1].lr_scale, 0.1);
}

TEST(ParameterGroups, TheFirstGroupOfATensorCounts) {
  const auto groups = groups_of("*.bias: weight-decay=0.5; h*: lr-scale=0.1; conv?.weight: lr-scale=2");
  EXPECT_EQ(groups_of_tensors("group", groups, network()), (std::vector<std::size_t>{2, 0, 3, 0, 1, 0}));
}

TEST(ParameterGroups, SayWhatIsWrong) {
  const auto refusal = [](const std::string& text) { return message_of([&] { grouped(text, "sgd"); }); };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text);
  };
  expect("*.bias", "group *.bias: no `:`");
  expect("*.bias: weight-decay=0;", "group *.bias: weight-decay=0;: a group is empty; `;` stands between two of them");
  expect("*.bias: weight-decay=0; ; *: lr-scale=2", "a group is empty");
  expect(": weight-decay=0", "a pattern is empty");
  expect("*.bias,: weight-decay=0", "a pattern is empty");
  expect("*.bias:", "says no option");
  expect("*.bias: 0", "say which option it is");
  expect("*.bias: weight-deca=0", "unknown option `weight-deca`; did you mean `weight-decay`");
  expect("*.bias: weight-decay=-1", "weight-decay must be in [0, inf)");
  expect("*.bias: lr-scale=-1", "lr-scale must be in [0, inf)");
  expect("*.bias: beta1=0.5", "unknown option `beta1`");
  expect("*.bias: weight-decay=0) | adam(eps=1", "expected `,` or the end, found `)`");
  expect("head.*: momentum=0; *: lr-scale=-1",  // as it was written
         "group *: lr-scale=-1: lr-scale must be in [0, inf)\n  *: lr-scale=-1\n              ^");
  expect("*: lr-scale=1, =2", "expected `,` or `)`, found `=`\n  *: lr-scale=1, =2\n                 ^");
  expect("*: ,", "expected an argument, found `,`\n  *: ,\n     ^");
  expect("*.bias: momentum=0, nesterov=true", "momentum is 0");
  expect("*.bais: lr-scale=2", "`*.bais` is the name of no tensor; did you mean conv1.bias, norm1.bias, head.bias");
  expect("hed.*: lr-scale=2", "did you mean head.weight, head.bias");
  expect("zzzzzz: lr-scale=2", "there are conv1.weight, conv1.bias");
  expect("*.bias: lr-scale=2; head.bias: lr-scale=3", "`head.bias` has only tensors of earlier groups");
}

// As in "*.bias,*norm*", which is said of any network.
TEST(ParameterGroups, APatternWithoutATensorIsADoubtIfItsGroupHasOthers) {
  const auto doubt = [](const std::string& text) {
    const auto groups = groups_of(text);
    groups_of_tensors("group", groups, network());
    return spelled(groups_doubt("group", groups, network()));
  };
  EXPECT_EQ(doubt("*.bias,*norm*: weight-decay=0"), "");
  EXPECT_EQ(doubt("*.bias,nrom1.*: weight-decay=0"),
            "group: `nrom1.*` is the name of no tensor; did you mean norm1.weight, norm1.bias");
  EXPECT_NE(message_of([&] { doubt("nrom1.*,x: weight-decay=0"); }).find("`nrom1.*` is the name of no tensor"),
            std::string::npos);
}

const std::vector<std::string> kinds{"sgd(weight-decay=0.1)", "adamw",         "adagrad",
                                     "dgc(weight-decay=0.1)", "signum",        "sign",
                                     "onebit-adam(warmup=2)", "lars(trust=1)", "lamb(weight-decay=0.1)"};

TEST(ParameterGroups, WithTheSameOptionsChangeNoBit) {
  for (const std::string& expression : kinds) {
    const auto plain = make_optimiser(test::optimiser(expression), network());
    const auto own = grouped("*.bias: lr-scale=1; norm*: lr-scale=1", expression);
    EXPECT_EQ(own->dense_steps(), plain->dense_steps());
    EXPECT_EQ(own->needs_whole_tensors(), plain->needs_whole_tensors());
    EXPECT_EQ(own->may_reset_buffers(), plain->may_reset_buffers());
    EXPECT_EQ(own->offers_gradient(), plain->offers_gradient());
    EXPECT_EQ(own->offer_makes_buffers(), plain->offer_makes_buffers());
    std::vector<float> p = noise(0), q = p;
    for (std::uint64_t t = 0; t < 5; ++t) {
      step(*plain, p, t);
      step(*own, q, t);
      EXPECT_EQ(p, q) << expression << ", step " << t;
    }
  }
}

// Each tensor takes the same path as if all tensors had the options of its group.
TEST(ParameterGroups, TensorsGoTheirOwnWays) {
  const auto own = grouped("*.bias,norm*: weight-decay=0; head.weight: lr-scale=0.5, momentum=0.5",
                           "sgd(momentum=0.9, weight-decay=0.1)");
  const auto biases = make_optimiser(test::optimiser("sgd(momentum=0.9)"), network());
  const auto others = make_optimiser(test::optimiser("sgd(momentum=0.9, weight-decay=0.1)"), network());
  const auto head = make_optimiser(test::optimiser("sgd(momentum=0.5, weight-decay=0.1)"), network());
  std::vector<float> p = noise(0), b = p, o = p, h = p;
  for (std::uint64_t t = 0; t < 4; ++t) {
    step(*own, p, t);
    step(*biases, b, t);
    step(*others, o, t);
    head->begin_step(t);
    std::vector<float> g = noise(10 + t);
    head->apply(h, g, 0, 0.05);
  }
  const Layout layout = network();
  for (const Segment& segment : layout.segments()) {
    const bool of_bias = segment.name.ends_with("bias") || segment.name.starts_with("norm");
    const std::vector<float>& wanted = segment.name == "head.weight" ? h : of_bias ? b : o;
    for (std::size_t i = segment.offset; i < segment.range().end; ++i) EXPECT_EQ(p[i], wanted[i]) << segment.name;
  }
}

TEST(ParameterGroups, HaveBuffersOfOffersIfOneOfThemHas) {
  for (const char* expression : {"sgd", "sgd(momentum=0)"}) {
    const auto optimiser = grouped("*.bias: momentum=0; head.*: lr-scale=0.1", expression);
    EXPECT_FALSE(optimiser->offer_makes_buffers());
    optimiser->take_shares(0.5);
    EXPECT_EQ(optimiser->offer_makes_buffers(), std::string_view(expression) == "sgd");
  }
}

TEST(ParameterGroups, ContinueFromTheirState) {
  const std::string text = "*.bias: lr-scale=0.5; norm*: lr-scale=2";
  for (const std::string& expression : kinds) {
    const auto first = grouped(text, expression), second = grouped(text, expression);
    std::vector<float> p = noise(0);
    for (std::uint64_t t = 0; t < 3; ++t) step(*first, p, t);
    std::vector<float> q = p;
    test::hand_over(*first, *second);
    for (std::uint64_t t = 3; t < 6; ++t) {
      step(*first, p, t);
      step(*second, q, t);
    }
    EXPECT_EQ(p, q) << expression;
  }
}

TEST(ParameterGroups, HoldTheStateOfEachTensorOnce) {
  test::Store store;
  grouped("*: lr-scale=0.5", "sgd(momentum=0.9)")->visit_state(store);
  ASSERT_EQ(store.floats.size(), 1U) << "no tensor is left for the others";
  EXPECT_EQ(store.floats.at("group/0/velocity").size(), network().size());
  test::Store both;
  grouped("*.bias: lr-scale=0.5", "sgd(momentum=0.9)")->visit_state(both);
  EXPECT_EQ(both.floats.at("group/0/velocity").size() + both.floats.at("others/velocity").size(), network().size());
}

TEST(ParameterGroups, AFactorOfZeroFreezes) {
  const auto own = grouped("head.*: lr-scale=0", "sgd(weight-decay=0.1)");
  std::vector<float> p = noise(0);
  const std::vector<float> start = p;
  step(*own, p, 0);
  const Layout layout = network();
  for (std::size_t i = 0; i < p.size(); ++i) {
    const bool frozen = layout.name_at(i).starts_with("head") || layout.name_at(i) == "padding";
    EXPECT_EQ(p[i] == start[i], frozen) << layout.name_at(i);
  }
}

}  // namespace
}  // namespace sotto
