#include "sotto/aggregate/warmup.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

using test::message_of;

std::vector<Phase> phases(const std::string& warmup, const std::string& method, std::uint64_t steps = 1000,
                          const std::string& aggregator = "auto") {
  return make_warmup(warmup_table().read("codec-warmup", warmup), read_recipe(method, aggregator), {10}, steps).phases;
}

// The codec's ratio in each phase.
std::vector<double> ratios(const std::vector<Phase>& phases) {
  std::vector<double> found;
  for (const Phase& phase : phases) {
    const std::string text = phase.recipe.text();
    found.push_back(std::stod(text.substr(text.find("ratio=") + 6)));
  }
  return found;
}

TEST(Warmup, FallsAsInThePaper) {
  for (const char* warmup : {"exponential", "coefficient(0.25)", "list(25%/0.0625/0.015625/0.390625%)"}) {
    const auto made = phases(warmup, "momentum | sampled_topk(0.001) | f16", 1000, "gather");
    EXPECT_EQ(ratios(made), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.001})) << warmup;
    for (std::size_t epoch = 0; epoch < made.size(); ++epoch) {
      EXPECT_EQ(made[epoch].first_step, 10 * epoch);
      EXPECT_EQ(made[epoch].recipe.aggregator.text(), "gather");
      const std::string text = made[epoch].recipe.text();
      EXPECT_TRUE(text.starts_with("momentum(m=0.9")) << text;
      EXPECT_TRUE(text.ends_with(" | f16")) << text;
    }
    EXPECT_EQ(made.back().recipe.text(), read_recipe("momentum | sampled_topk(0.001) | f16").text());
  }
}

TEST(Warmup, FallsOverSoManyEpochs) {
  const auto found = ratios(phases("exponential(epochs=2)", "ef | topk(0.001)"));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NEAR(found[0], 0.1, 1e-12);
  EXPECT_NEAR(found[1], 0.01, 1e-12);
  EXPECT_EQ(found[2], 0.001);
  EXPECT_EQ(ratios(phases("coefficient(0.5)", "topk(0.2)")), (std::vector<double>{0.5, 0.25, 0.2}));
  EXPECT_EQ(ratios(phases("list(0.5)", "dct(8) | topk(0.2)")), (std::vector<double>{0.5, 0.2}));
}

TEST(Warmup, TakesThePresetApart) {
  const auto made = phases("list(30%)", "topk-ef");
  EXPECT_EQ(made.back().recipe.text(), read_recipe("topk-ef").text());
  EXPECT_TRUE(made.front().recipe.text().starts_with("ef | topk(ratio=0.3")) << made.front().recipe.text();
}

TEST(Warmup, OfAMethodThatIsAnAggregatorItself) {
  const auto made = phases("list(30%/20%)", "fetch(0.01, momentum=0.5) | count_sketch(rows=3, columns=20%)");
  EXPECT_EQ(ratios(made), (std::vector<double>{0.3, 0.2, 0.01}));
  for (const Phase& phase : made) {
    EXPECT_TRUE(phase.recipe.by_itself()) << phase.recipe.text();
    EXPECT_EQ(text_of(phase.recipe.stages), text_of(read_stages("count_sketch(rows=3, columns=20%)")));
    EXPECT_NE(phase.recipe.aggregator.text().find("momentum=0.5"), std::string::npos) << phase.recipe.text();
  }
  EXPECT_EQ(ratios(phases("list(30%)", "fetch | randomk(0.5)")), (std::vector<double>{0.3, 0.01})) << "not the codec's";
  const auto text = message_of([] { phases("list(30%)", "fetch", 1000, "gather"); });
  EXPECT_NE(text.find("is an aggregator itself"), std::string::npos) << text;
}

// With 10 steps an epoch, four ratios need more than 40 steps.
TEST(Warmup, ThatIsLongerThanTheTrainingIsShortened) {
  const std::vector<double> all{0.25, 0.0625, 0.015625, 0.00390625, 0.001};
  const auto remark = [](std::uint64_t steps) {
    return make_warmup(warmup_table().read("codec-warmup", "exponential"), read_recipe("topk(0.001)"), {10}, steps)
        .remark;
  };
  EXPECT_EQ(remark(41), "");
  for (const std::uint64_t steps : {40U, 33U, 5U}) {
    const auto made = phases("exponential", "topk(0.001)", steps);
    EXPECT_EQ(ratios(made), all);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(made[i].first_step, i * steps / 5);
    EXPECT_NE(remark(steps).find("4 epochs of warm-up do not fit into " + std::to_string(steps)), std::string::npos);
  }
  const auto few = phases("exponential", "topk(0.001)", 3);
  EXPECT_EQ(ratios(few), (std::vector<double>{0.0625, 0.00390625, 0.001}));
  EXPECT_EQ(few.back().first_step, 2U);
  EXPECT_EQ(ratios(phases("list(50%/20%)", "topk(0.01)", 1)), std::vector<double>{0.01});
}

TEST(Warmup, RefusesWhatIsNone) {
  const auto refusal = [](const std::string& warmup, const std::string& method) {
    return message_of([&] { phases(warmup, method); });
  };
  EXPECT_NE(refusal("exponental", "topk(0.01)").find("did you mean `exponential`"), std::string::npos);
  EXPECT_NE(refusal("exponential", "qsgd(bits=4)").find("has no ratio"), std::string::npos);
  EXPECT_NE(refusal("exponential", "power(1)").find("has no ratio"), std::string::npos);
  EXPECT_NE(refusal("exponential", "ef | topk(count=50)").find("has no ratio"), std::string::npos);
  EXPECT_NE(refusal("list(100%)", "demo-dct").find("has no ratio"), std::string::npos);
  EXPECT_NE(refusal("exponential", "topk(0.5)").find("nothing to warm up"), std::string::npos);
  for (const char* bad :
       {"list", "list()", "list(0.1/)", "list(0)", "list(2)", "list(0.1/x)", "list(nan)", "coefficient(1)",
        "coefficient(0)", "exponential(-1)", "exponential(1e9)", "list(0.1) | list(0.1)", ""}) {
    EXPECT_NE(refusal(bad, "topk(0.01)").find("codec-warmup"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace sotto
