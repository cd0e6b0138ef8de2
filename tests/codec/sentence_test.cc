// Sentences, presets and what is said about them.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "sotto/codec/codec.h"
#include "sotto/codec/describe.h"
#include "sotto/codec/method.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 4> memories{"ef", "momentum", "memsgd", "demo"};
constexpr std::array<std::string_view, 2> aggregators{"power", "fetch"};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string codec_error(const std::string& sentence) {
  return error_of([&] { make_codec("--codec", sentence); });
}

std::string method_error(const std::string& sentence) {
  return error_of([&] { parse_method("--codec", sentence, memories); });
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}

TEST(Sentence, IsMadeCanonical) {
  const auto canonical = [](const char* text) { return make_codec("--codec", text)->sentence(); };
  EXPECT_EQ(canonical("topk(1%)"), "topk(ratio=0.01, scope=segment, dense=1024) | f32");
  EXPECT_EQ(canonical("zstd"), "f32 | zstd(level=1)");
  EXPECT_EQ(canonical("topk | qsgd(2) | zstd(3)"),
            "topk(ratio=0.01, scope=segment, dense=1024) | qsgd(bits=2, bucket=512, norm=max) | zstd(level=3)");
  EXPECT_EQ(canonical("int8"), "int8(block=256, stochastic=false)");
}

TEST(Sentence, RefusesWrongOrderAndDoubles) {
  EXPECT_TRUE(has(codec_error("qsgd | topk"), "the order is transform | select | quantise | code"));
  EXPECT_TRUE(has(codec_error("qsgd | topk"), "qsgd | topk\n"));
  EXPECT_TRUE(has(codec_error("topk | threshold(1)"), "a second select stage"));
  EXPECT_TRUE(has(codec_error("zstd | f16"), "quantise `f16` stands after code `zstd`"));
  EXPECT_TRUE(has(codec_error("qsdg(4)"), "did you mean `qsgd`"));
  EXPECT_TRUE(has(codec_error("ef | topk"), "unknown codec stage `ef`"));
}

TEST(Sentence, PutsTheCaretUnderTheMistake) {
  const std::string error = codec_error("topk(0.1) | threshold(1) | f16");
  const std::size_t line = error.find("topk(0.1) | threshold(1) | f16");
  const std::size_t caret = error.find('^');
  ASSERT_NE(line, std::string::npos) << error;
  ASSERT_NE(caret, std::string::npos) << error;
  const std::size_t text_column = line - (error.rfind('\n', line) + 1);
  const std::size_t caret_column = caret - (error.rfind('\n', caret) + 1);
  EXPECT_EQ(caret_column - text_column, std::string("topk(0.1) | ").size()) << error;
}

TEST(Sentence, RefusesBadOptions) {
  for (const char* bad : {"topk(1.5)",
                          "topk(0)",
                          "topk(-1)",
                          "topk(ratio=x)",
                          "topk(rate=0.1)",
                          "topk(0.1, scope=layer)",
                          "topk(0.1, 0.2)",
                          "threshold(-1)",
                          "threshold(2, relative)",
                          "threshold(1, scope=bucket)",
                          "threshold(kind=adaptive)",
                          "threshold(101%, adaptive)",
                          "threshold(101%, drop)",
                          "topk(0.1, dense=-1)",
                          "qsgd(0)",
                          "qsgd(9)",
                          "qsgd(bits=2.5)",
                          "qsgd(norm=l1)",
                          "qsgd(bucket=0)",
                          "sign(block=-1)",
                          "int8(block=0)",
                          "uint8(block=32769)",
                          "int8(stochastic=perhaps)",
                          "zstd(0)",
                          "zstd(20)",
                          "f16(1)",
                          "f32 |",
                          "| f32",
                          "",
                          "topk(nan)",
                          "threshold(inf)"}) {
    EXPECT_NE(codec_error(bad), "accepted") << bad;
  }
}

TEST(Method, SplitsTheMemoryOff) {
  const Method method = parse_method("--codec", "momentum(0.9) | topk(0.1) | f16", memories);
  EXPECT_EQ(method.memory, "momentum(0.9)");
  EXPECT_EQ(method.codec, "topk(ratio=0.1, scope=segment, dense=1024) | f16");
  EXPECT_EQ(method.aggregator, "auto");
  EXPECT_EQ(parse_method("--codec", "qsgd(2)", memories).memory, "");
  EXPECT_EQ(parse_method("--codec", "ef", memories).codec, "f32");
}

TEST(Method, APresetIsABareName) {
  EXPECT_EQ(parse_method("--codec", "topk", memories).memory, "ef");
  EXPECT_EQ(parse_method("--codec", "topk", memories).preset, "topk");
  EXPECT_EQ(parse_method("--codec", " topk ", memories).memory, "ef");
  EXPECT_EQ(parse_method("--codec", "topk()", memories).memory, "");
  EXPECT_EQ(parse_method("--codec", "topk(0.01)", memories).memory, "");
  EXPECT_EQ(parse_method("--codec", "topk | f16", memories).memory, "");
  EXPECT_EQ(parse_method("--codec", "none", memories).codec, "f32");
}

TEST(Method, EveryPresetIsASentence) {
  for (const Preset& preset : preset_table()) {
    const Method short_form = parse_method("--codec", preset.name, memories, aggregators);
    const Method long_form = parse_method("--codec", sentence_of(preset), memories, aggregators);
    EXPECT_EQ(short_form.memory, long_form.memory) << preset.name;
    EXPECT_EQ(short_form.codec, long_form.codec) << preset.name;
    EXPECT_EQ(short_form.aggregator, preset.aggregator == "auto" ? long_form.aggregator : preset.aggregator);
  }
}

TEST(Method, SaysWhatToWriteInPlaceOfAPresetThatDoesNotStandAlone) {
  EXPECT_TRUE(has(method_error("dgc(0.01)"),
                  "--codec dgc(0.01): the preset `dgc` stands alone and takes no options; write what it stands for: "
                  "momentum | sampled_topk(0.1%, dense=all), with the optimiser `dgc`\n"));
  EXPECT_TRUE(has(method_error("none | zstd"), "the preset `none` stands alone; write what it stands for: f32\n"));
  EXPECT_TRUE(has(method_error("dgc | f16"), "the preset `dgc` stands alone; "));
  EXPECT_TRUE(has(method_error("ef | dgc"), "the preset `dgc` stands alone; "));
  EXPECT_TRUE(has(method_error("sketchml | rans"), "write what it stands for: quantile | minmax_sketch\n"));
  EXPECT_TRUE(has(method_error("signsgd(1)"), "signs, with the aggregator `vote` and the optimiser `signum("));
  EXPECT_EQ(method_error("ef | natural"), "accepted") << "a stage has this name, too";
}

TEST(Method, RefusesAMemoryInTheWrongPlace) {
  EXPECT_TRUE(has(method_error("topk | ef"), "must stand first"));
  EXPECT_TRUE(has(method_error("ef | ef | topk"), "there can be only one"));
  EXPECT_TRUE(has(method_error("signsdg"), "did you mean `signsgd`"));
  EXPECT_TRUE(has(method_error("e | topk"), "unknown codec, memory or preset `e`"));
  EXPECT_TRUE(has(method_error("ef | topkk"), "ef | topkk\n"));
  EXPECT_TRUE(has(method_error(""), "--codec"));
}

TEST(Method, AnAggregatorMayTakeThePlaceOfTheStages) {
  const auto parse = [](const char* text) { return parse_method("--codec", text, memories, aggregators); };
  const Method bare = parse("power");
  EXPECT_EQ(bare.memory, "");
  EXPECT_EQ(bare.aggregator, "power");
  EXPECT_EQ(bare.codec, "f32");
  const Method full = parse("ef | power(rank=2, min_rate=1) | f16");
  EXPECT_EQ(full.memory, "ef");
  EXPECT_EQ(full.aggregator, "power(rank=2, min_rate=1)");
  EXPECT_EQ(full.codec, "f16");
  EXPECT_EQ(parse("powersgd").aggregator, "power(1)");
  const auto error = [&](const char* text) { return error_of([&] { parse(text); }); };
  EXPECT_TRUE(has(error("power | topk"), "what follows `power` is summed on the way"));
  EXPECT_TRUE(has(error("power | f16 | zstd"), "what follows `power` is summed on the way"));
  EXPECT_TRUE(has(error("topk | power"), "only a memory may stand before it"));
  EXPECT_TRUE(has(error("power | power"), "takes the place of the stages"));
  EXPECT_TRUE(has(error("power | ef"), "must stand first"));
  EXPECT_TRUE(has(error("pover"), "did you mean `power`"));
  EXPECT_TRUE(has(method_error("power"), "unknown codec, memory or preset `power`")) << "not where it is not known";
  EXPECT_EQ(choose_aggregator("--aggregator", full, "auto"), full.aggregator);
  EXPECT_TRUE(has(error_of([&] { choose_aggregator("--aggregator", full, "gather"); }), "is an aggregator itself"));
}

TEST(Method, APresetHoldsItsAggregator) {
  const Method free = parse_method("--codec", "qsgd", memories);
  EXPECT_EQ(choose_aggregator("--aggregate", free, "auto"), "auto");
  EXPECT_EQ(choose_aggregator("--aggregate", free, "gather"), "gather");
  const Method tied{"", "sign", "vote", false, "signsgd"};
  EXPECT_EQ(choose_aggregator("--aggregate", tied, "auto"), "vote");
  EXPECT_EQ(choose_aggregator("--aggregate", tied, "vote"), "vote");
  EXPECT_TRUE(
      has(error_of([&] { choose_aggregator("--aggregate", tied, "gather"); }), "tied to the aggregator `vote`"));
}

TEST(Method, APresetHoldsItsOptimiser) {
  const Method free = parse_method("--codec", "qsgd", memories);
  EXPECT_EQ(choose_optimiser("--optimiser", free, "auto"), "auto");
  EXPECT_EQ(choose_optimiser("--optimiser", free, "adam"), "adam");
  const Method tied = parse_method("--codec", "signum", memories);
  EXPECT_EQ(choose_optimiser("--optimiser", tied, "auto"), "signum");
  EXPECT_EQ(choose_optimiser("--optimiser", tied, "signum(momentum=0.5)"), "signum(momentum=0.5)");
  EXPECT_TRUE(has(error_of([&] { choose_optimiser("--optimiser", tied, "sgd"); }), "tied to the optimiser `signum`"));
}

TEST(Describe, SaysWhatEverythingIs) {
  for (const StageEntry& stage : stage_table()) {
    EXPECT_TRUE(has(list_stages(), std::string(stage.name)));
    const std::string text = describe_stage(stage);
    EXPECT_TRUE(has(text, std::string(stage.summary)));
    EXPECT_TRUE(has(text, "contract "));
    EXPECT_TRUE(has(text, stage.help()));
  }
  for (const Preset& preset : preset_table()) {
    EXPECT_TRUE(has(list_presets(), std::string(preset.name)));
    EXPECT_TRUE(has(describe_preset(preset, ""), std::string(preset.summary)));
  }
  const std::string both = describe_codec("describe", "topk(0.1) | qsgd(2)");
  EXPECT_TRUE(has(both, "topk (select)"));
  EXPECT_TRUE(has(both, "qsgd (quantise)"));
  EXPECT_TRUE(has(both, "sentence   topk(ratio=0.1, scope=segment, dense=1024) | qsgd(bits=2, bucket=512, norm=max)"));
  EXPECT_NE(error_of([] { describe_codec("describe", "nonsense"); }), "accepted");
  const std::string behind = describe_codec("describe", "topk(0.1)", "momentum(m=0.5)");
  EXPECT_TRUE(has(behind, "sentence   momentum(m=0.5) | topk(ratio=0.1"));
  EXPECT_TRUE(has(behind, "contract   behind `momentum`: contraction"));
}

}  // namespace
}  // namespace sotto
