#include "app/advise/advice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"

namespace sotto {
namespace {

Prediction of(std::string expression, double ms, Quality quality = Quality::high, double error = 0) {
  Prediction made{.codec = std::move(expression), .quality = quality, .seconds = ms * 1e-3, .relative_error = error};
  made.plain = made.codec == "none" || made.codec == "f16";
  return made;
}

std::vector<std::string> ranked(std::vector<Prediction> predictions) {
  rank_predictions(predictions);
  std::vector<std::string> names;
  for (const Prediction& p : predictions) names.push_back(p.codec);
  return names;
}

std::string verdict_of(std::vector<Prediction> predictions) {
  rank_predictions(predictions);
  return spelled(verdict(predictions));
}

using Names = std::vector<std::string>;

TEST(Advice, TheQuickestComesFirst) {
  EXPECT_EQ(ranked({of("none", 100), of("a", 60, Quality::low), of("b", 80)}), (Names{"a", "b", "none"}));
}

TEST(Advice, QualityDecidesBetweenEquallyQuickOnes) {
  EXPECT_EQ(ranked({of("a", 100, Quality::low), of("b", 102, Quality::medium, 0.5), of("c", 103, Quality::medium, 0.1),
                    of("d", 104)}),
            (Names{"c", "b", "a", "d"}));
}

TEST(Advice, KnownGoodLossesComeFirst) {
  std::vector<Prediction> all{of("none", 100), of("a", 10), of("b", 60), of("c", 5, Quality::low)};
  all[1].quality.reset();
  EXPECT_EQ(ranked(all), (Names{"c", "b", "none", "a"})) << "low is what was asked for";
  rank_predictions(all, Quality::medium);
  EXPECT_EQ(all[0].codec, "b");
  EXPECT_EQ(all[2].codec, "c");
  EXPECT_TRUE(verdict(all, Quality::medium).starts_with("compress with `b`")) << verdict(all, Quality::medium);
}

TEST(Advice, ALossThatIsNotKnownIsSaid) {
  Prediction unknown = of("a", 20);
  unknown.quality.reset();
  EXPECT_TRUE(
      verdict_of({of("none", 100), of("b", 40), unknown})
          .ends_with(". `a` takes 20.0 ms, but its loss is not known: check 200 trains with it and with `none`"));
  const std::string alone = verdict_of({of("none", 100), unknown});
  EXPECT_TRUE(alone.starts_with("do not compress yet: `none` takes 100.0 ms a step; ")) << alone;
  EXPECT_TRUE(
      alone.ends_with("; `a` takes 20.0 ms, but its loss is not known: check 200 trains with it and with `none`"))
      << alone;
  unknown.seconds = 0.099;
  EXPECT_TRUE(verdict_of({of("none", 100), unknown}).ends_with("would save 1.0 %"));
}

TEST(Advice, ACheckSaysWhatTheLossIs) {
  EXPECT_EQ((CheckedLoss{.loss = 1.01, .dense = 1}).quality(2), Quality::high);
  EXPECT_EQ((CheckedLoss{.loss = 0.9, .dense = 1}).quality(2), Quality::high);
  EXPECT_EQ((CheckedLoss{.loss = 1.05, .dense = 1}).quality(2), Quality::medium);
  EXPECT_EQ((CheckedLoss{.loss = 1.5, .dense = 1}).quality(2), Quality::low);
  EXPECT_EQ((CheckedLoss{.loss = std::nan(""), .dense = 1}).quality(2), Quality::low);
  Prediction bad = of("a", 20, Quality::low);
  bad.checked = CheckedLoss{.steps = 50, .loss = 1.5, .dense = 1};
  std::vector<Prediction> all{of("none", 100), bad};
  rank_predictions(all, Quality::medium);
  const std::string text = verdict(all, Quality::medium);
  EXPECT_TRUE(text.starts_with("do not compress: ")) << text;
  EXPECT_TRUE(text.ends_with("; `a` takes 20.0 ms, but has a loss of 1.5 after 50 steps, where dense training has 1"))
      << text;
}

TEST(Advice, CompressesWhereAStepIsClearlyShorter) {
  const std::string text = verdict_of({of("none", 100), of("f16", 60), of("int8", 40)});
  EXPECT_TRUE(text.starts_with("compress with `int8`: a step takes 40.0 ms instead of 100.0 ms with `none`, 2.5 times"))
      << text;
}

TEST(Advice, ShortStepsHaveEnoughDigits) {
  const std::string text = verdict_of({of("none", 0.05), of("int8", 0.0409)});
  EXPECT_TRUE(text.starts_with("compress with `int8`: a step takes 0.0409 ms instead of 0.05 ms with `none`")) << text;
}

TEST(Advice, NamesTheBestOneThatKeepsTheLoss) {
  const std::string text = verdict_of({of("none", 100), of("a", 20, Quality::medium), of("b", 40)});
  EXPECT_TRUE(text.starts_with("compress with `a`")) << text;
  EXPECT_NE(text.find("`b` keeps the loss of dense training, and takes 40.0 ms"), std::string::npos) << text;
}

TEST(Advice, DoesNotCompressWhereThatLoses) {
  const std::string text = verdict_of({of("none", 100), of("f16", 99), of("int8", 120)});
  EXPECT_TRUE(text.starts_with("do not compress: `none` takes 100.0 ms a step; its exchanges overlap")) << text;
  EXPECT_TRUE(text.ends_with("; `int8`, the best of the others, loses, with 120.0 ms")) << text;
}

TEST(Advice, DoesNotCompressForAFewPerCent) {
  const std::string text = verdict_of({of("none", 100), of("int8", 96)});
  EXPECT_TRUE(text.starts_with("do not compress: `none`")) << text;
  EXPECT_TRUE(text.ends_with("would save 4.0 %")) << text;
}

TEST(Advice, ACastIsNoCompression) {
  const std::string text = verdict_of({of("none", 100), of("f16", 60), of("int8", 59)});
  EXPECT_TRUE(text.starts_with("do not compress: `f16` is enough, with 60.0 ms a step instead of 100.0 ms")) << text;
}

TEST(Advice, SaysWhatAStepWaitsFor) {
  Prediction none = of("none", 100);
  none.waiting = 0.080;
  EXPECT_NE(verdict_of({none}).find("80 % of a step waits for exchanges"), std::string::npos);
  none.work = 0.070;
  EXPECT_NE(verdict_of({none}).find("mostly work of the codec"), std::string::npos);
}

}  // namespace
}  // namespace sotto
