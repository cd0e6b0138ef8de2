// Whole codecs, presets, and the aggregators and optimisers given with them.
#include "sotto/aggregate/recipe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/presets.h"
#include "sotto/codec/measure.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/support/message_of.h"
#include "tests/support/opened.h"

namespace sotto {
namespace {

using test::message_of;

std::string error_of(const std::string& expression) {
  return message_of([&] { read_recipe(expression); });
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}

TEST(Recipe, HasMemoryAndCodec) {
  const Recipe recipe = read_recipe("momentum(0.9) | topk(0.1) | f16");
  EXPECT_EQ(recipe.memory.source_text(), "momentum(0.9)");
  EXPECT_EQ(text_of(recipe.stages), "topk(ratio=0.1, scope=segment, dense=1024) | f16");
  EXPECT_FALSE(recipe.aggregator);
  EXPECT_FALSE(read_recipe("qsgd(2)").memory);
  EXPECT_EQ(text_of(read_recipe("ef").stages), "f32");
  EXPECT_EQ(Recipe{}.text(), read_recipe("none").text());
}

TEST(Recipe, TextReadsBackAsItself) {
  for (const Preset& preset : preset_table()) {
    const std::string text = read_recipe(preset.name).text();
    EXPECT_EQ(read_recipe(text).text(), text) << preset.name;
  }
}

TEST(Recipe, APresetIsABareName) {
  EXPECT_EQ(read_recipe("topk-ef").memory.text(), "ef");
  EXPECT_EQ(read_recipe("topk-ef").preset, "topk-ef");
  EXPECT_EQ(read_recipe(" topk-ef ").memory.text(), "ef");
  EXPECT_EQ(text_of(read_recipe("none").stages), "f32");
}

TEST(Recipe, APresetHasANameOfItsOwn) {
  for (const Preset& preset : preset_table()) {
    EXPECT_EQ(stage_table().find(preset.name), nullptr) << preset.name;
    EXPECT_EQ(memory_table().find(preset.name), nullptr) << preset.name;
  }
  EXPECT_FALSE(read_recipe("topk").memory);
}

TEST(Recipe, EveryPresetIsACodec) {
  for (const Preset& preset : preset_table()) {
    const Recipe short_form = read_recipe(preset.name);
    const Recipe long_form = read_recipe(text_of(preset));
    EXPECT_EQ(short_form.text(), long_form.text()) << preset.name;
    const std::string aggregator(preset.aggregator);
    EXPECT_EQ(text_of(short_form.aggregator), aggregator == "auto" ? text_of(long_form.aggregator) : aggregator);
  }
}

TEST(Recipe, SaysWhatToWriteInPlaceOfAPresetThatDoesNotStandAlone) {
  EXPECT_TRUE(has(error_of("dgc(0.01)"),
                  "codec dgc(0.01): the preset `dgc` stands alone and takes no options; write what it stands for: "
                  "momentum | sampled_topk(0.1%, dense=all), with the optimiser `dgc`\n"));
  EXPECT_TRUE(has(error_of("none | zstd"), "the preset `none` stands alone; write what it stands for: f32\n"));
  EXPECT_TRUE(has(error_of("dgc | f16"), "the preset `dgc` stands alone; "));
  EXPECT_TRUE(has(error_of("ef | dgc"), "the preset `dgc` stands alone; "));
  EXPECT_TRUE(
      has(error_of("sketchml | rans"), "write what it stands for: threshold(0, dense=0) | quantile | minmax_sketch\n"));
  EXPECT_TRUE(has(error_of("signsgd(1)"), "signs, with the aggregator `vote` and the optimiser `signum("));
  EXPECT_EQ(error_of("ef | natural"), "") << "a stage has this name, too";
}

TEST(Recipe, RefusesAMemoryInTheWrongPlace) {
  EXPECT_TRUE(has(error_of("topk | ef"), "must stand first"));
  EXPECT_TRUE(has(error_of("ef | ef | topk"), "there can be only one"));
  EXPECT_TRUE(has(error_of("signsdg"), "did you mean `signsgd`"));
  EXPECT_TRUE(has(error_of("e | topk"), "unknown codec, memory or preset `e`"));
  EXPECT_TRUE(has(error_of("ef | topkk"), "ef | topkk\n"));
  EXPECT_TRUE(has(error_of(""), "codec"));
}

// Errors name an option by its identity, since each front end spells it in its own way.
TEST(Recipe, ErrorsCarryTheOption) {
  try {
    read_recipe("ef | topk(1.5)");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), std::string("codec topk(1.5): ratio must be in (0, 1]\n  ef | topk(1.5)\n            ^"));
    const auto python = [](std::string_view option, std::string_view value) {
      return std::string(option) + "='" + std::string(value) + "'";
    };
    EXPECT_TRUE(has(error.text(python), "codec='topk(1.5)': ratio must be in (0, 1]\n"));
  }
}

TEST(Recipe, AnAggregatorMayTakeThePlaceOfTheStages) {
  const Recipe bare = read_recipe("power");
  EXPECT_TRUE(bare.by_itself());
  EXPECT_EQ(bare.memory.text(), "ef") << "its own";
  EXPECT_EQ(bare.aggregator.source_text(), "power");
  EXPECT_EQ(text_of(bare.stages), "f32");
  const Recipe full = read_recipe("ef | power(rank=2, min_rate=1) | f16");
  EXPECT_EQ(full.text(), "ef | power(rank=2, min_rate=1) | f16");
  EXPECT_EQ(read_recipe("powersgd").aggregator.source_text(), "power(4)");
  EXPECT_TRUE(has(error_of("power | topk"), "what follows `power` is summed on the way"));
  EXPECT_TRUE(has(error_of("power | f16 | zstd"), "what follows `power` is summed on the way"));
  EXPECT_TRUE(has(error_of("topk | power"), "only a memory may stand before it"));
  EXPECT_TRUE(has(error_of("power | power"), "takes the place of the stages"));
  EXPECT_TRUE(has(error_of("power | ef"), "must stand first"));
  EXPECT_TRUE(has(error_of("pover"), "did you mean `power`"));
  EXPECT_EQ(read_recipe("power(2)", "auto").aggregator.source_text(), "power(2)");
  EXPECT_TRUE(has(message_of([] { read_recipe("power(2)", "gather"); }), "is an aggregator itself"));
}

TEST(Recipe, APresetHoldsItsAggregator) {
  EXPECT_FALSE(read_recipe("qsgd").aggregator);
  EXPECT_EQ(read_recipe("qsgd", "gather").aggregator.text(), "gather");
  EXPECT_EQ(read_recipe("signsgd").aggregator.text(), "vote");
  EXPECT_EQ(read_recipe("signsgd", "vote").aggregator.text(), "vote");
  EXPECT_TRUE(has(message_of([] { read_recipe("signsgd", "gather"); }), "tied to the aggregator `vote`"));
  EXPECT_TRUE(has(message_of([] { read_recipe("qsgd", "gahter"); }), "did you mean `gather`"));
}

TEST(Recipe, APresetHoldsItsOptimiser) {
  const Recipe free = read_recipe("qsgd");
  EXPECT_EQ(choose_optimiser(free, "auto"), "auto");
  EXPECT_EQ(choose_optimiser(free, "adam"), "adam");
  const Recipe tied = read_recipe("signum");
  EXPECT_EQ(choose_optimiser(tied, "auto"), "signum");
  EXPECT_EQ(choose_optimiser(tied, "signum(momentum=0.5)"), "signum(momentum=0.5)");
  EXPECT_TRUE(has(message_of([&] { choose_optimiser(tied, "sgd"); }), "tied to the optimiser `signum`"));
}

// As published: elements are selected from tensors of several dimensions only. DeMo cuts all tensors into chunks.
TEST(Recipe, SketchMlAndLssSendNoZeros) {
  Layout layout;
  layout.append("weights", {200'000});
  std::vector<float> values(layout.size());
  fill_sample("sample", "gaussian", 41, values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i % 25 == 0 ? 1.0F : 0.0F;
  const Range whole{0, layout.size()};
  for (const char* preset : {"sketchml", "lss"}) {
    SCOPED_TRACE(preset);
    const auto codec = make_codec(read_recipe(preset).stages);
    Message message;
    codec->encode({values, &layout, 0}, {}, {}, {&whole, 1}, {&message, 1});
    EXPECT_LT(message.view().size(), std::size_t{8'000} * 7 / 3);  // 8,000 values, with their indices and tables
    std::vector<float> out(layout.size());
    Bucket decoded{out, &layout, 0};
    test::opened(*codec, message.view(), layout, whole)->add_to(decoded, 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != 0) continue;
      ASSERT_EQ(out[i], 0) << i;
    }
  }
}

TEST(Recipe, PresetsSendTensorsOfOneDimensionWholeHoweverLongTheyAre) {
  Layout layout;
  layout.append("vector", {70'001});
  layout.append("matrix", {40, 50});
  std::vector<float> values(layout.size());
  for (const Segment& segment : layout.segments()) {
    fill_sample("sample", "gaussian", 39, std::span(values).subspan(segment.offset, segment.numel()));
  }
  for (float& value : values) value *= 100;  // the sample's deviation is 0.01
  for (const Preset& preset : preset_table()) {
    const Recipe recipe = read_recipe(preset.name);
    const bool selects = std::ranges::any_of(
        recipe.stages, [](const StageSpec& stage) { return stage.entry->kind == StageKind::select; });
    const bool selects_all = preset.codec.starts_with("threshold(0, dense=0) |");  // but the zeros
    if (!selects || selects_all || recipe.by_itself() || preset.name == "demo-dct") continue;
    SCOPED_TRACE(preset.name);
    const auto codec = make_codec(recipe.stages);
    const Range whole{0, layout.size()};
    Message message;
    codec->encode({values, &layout, 0}, {}, {}, {&whole, 1}, {&message, 1});
    std::vector<float> out(layout.size());
    Bucket decoded{out, &layout, 0};
    test::opened(*codec, message.view(), layout, whole)->add_to(decoded, 1);
    const auto lost = [&](const Segment& segment) {
      const Range range = segment.range();
      double sum = 0;
      for (std::size_t i = range.begin; i < range.end; ++i) sum += std::pow(values[i] - out[i], 2);
      return sum / static_cast<double>(range.size());
    };
    EXPECT_LT(lost(layout.segments()[0]), 1e-10);
    EXPECT_GT(lost(layout.segments()[1]), 0.1);
  }
}

TEST(Recipe, DoubtsNameTheOptionAsTheFrontEndSpellsIt) {
  const auto buckets = plan_buckets(test::sample_layout(), 1U << 20);
  const Recipe recipe = read_recipe("topk(0.01)");
  EXPECT_EQ(warning_about(recipe, buckets).find("codec topk(0.01): what it leaves out"), 0U);
  const auto spelling = [](std::string_view option, std::string_view value) {
    return "--" + std::string(option) + "=" + std::string(value);
  };
  EXPECT_EQ(warning_about(recipe, buckets, spelling).find("--codec=topk(0.01): what it leaves out"), 0U);
}

TEST(Recipe, PresetsThatLoseMuchAtTheirDefaultRateSaySo) {
  for (const Preset& preset : preset_table()) {
    const std::string doubt = warning_about_default_rate("codec", preset.name);
    const std::string points = fmt::format("at its default rate it lost {:.1f} points", preset.lost);
    EXPECT_EQ(doubt.find(points) != std::string::npos, preset.lost > 2) << doubt;
    EXPECT_EQ(doubt.empty(), preset.lost <= 2) << doubt;
    EXPECT_EQ(rate_with(preset.name), preset.rate);
  }
  EXPECT_EQ(warning_about_default_rate("codec", ""), "") << "no preset";
  EXPECT_EQ(rate_with(""), 1);
}

// A vector without shapes is one segment of one dimension, which many presets send whole.
TEST(Recipe, PresetsThatSendAFlatVectorWholeSaySo) {
  const auto flat = plan_buckets(Layout({{"vector", 0, {100'000}}}, 100'000), 1U << 20);
  std::string warned;
  for (const Preset& preset : preset_table()) {
    const std::string doubt = warning_about(read_recipe(preset.name), flat);
    if (doubt.find("nothing is compressed, because all tensors here have one dimension") == std::string::npos) continue;
    warned += std::string(preset.name) + " ";
  }
  EXPECT_EQ(warned, "topk-ef dgc memsgd-randomk masking atomo-svd atomo-entry atomo-fourier powersgd ");
  EXPECT_EQ(warning_about(read_recipe("ef | topk(0.01)"), flat), "") << "longer than 1024";
}

}  // namespace
}  // namespace sotto
