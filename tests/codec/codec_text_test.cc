// Codecs made of stages.
#include <gtest/gtest.h>

#include <functional>

#include "sotto/codec/codec.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string codec_error(const std::string& expression) {
  return error_of([&] { make_codec(read_stages(expression)); });
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}

TEST(CodecText, IsMadeCanonical) {
  const auto canonical = [](const char* text) { return make_codec(read_stages(text))->traits().text; };
  EXPECT_EQ(canonical("topk(1%)"), "topk(ratio=0.01, scope=segment, dense=1024) | f32");
  EXPECT_EQ(canonical("zstd"), "f32 | zstd(level=1)");
  EXPECT_EQ(canonical("topk | qsgd(2) | zstd(3)"),
            "topk(ratio=0.01, scope=segment, dense=1024) | qsgd(bits=2, bucket=512, norm=max) | zstd(level=3)");
  EXPECT_EQ(canonical("int8"), "int8(block=256, stochastic=false)");
}

TEST(CodecText, RefusesWrongOrderAndDoubles) {
  EXPECT_TRUE(has(codec_error("qsgd | topk"), "the order is transform | select | quantise | code"));
  EXPECT_TRUE(has(codec_error("qsgd | topk"), "qsgd | topk\n"));
  EXPECT_TRUE(has(codec_error("topk | threshold(1)"), "a second select stage"));
  EXPECT_TRUE(has(codec_error("zstd | f16"), "quantise `f16` stands after code `zstd`"));
  EXPECT_TRUE(has(codec_error("qsdg(4)"), "did you mean `qsgd`"));
  EXPECT_TRUE(has(codec_error("ef | topk"), "unknown codec stage `ef`"));
}

TEST(CodecText, PutsTheCaretUnderTheMistake) {
  const std::string error = codec_error("topk(0.1) | threshold(1) | f16");
  const std::size_t line = error.find("topk(0.1) | threshold(1) | f16");
  const std::size_t caret = error.find('^');
  ASSERT_NE(line, std::string::npos) << error;
  ASSERT_NE(caret, std::string::npos) << error;
  const std::size_t text_column = line - (error.rfind('\n', line) + 1);
  const std::size_t caret_column = caret - (error.rfind('\n', caret) + 1);
  EXPECT_EQ(caret_column - text_column, std::string("topk(0.1) | ").size()) << error;
}

TEST(CodecText, RefusesBadOptions) {
  for (const char* bad : {"topk(1.5)",
                          "topk(0)",
                          "topk(-1)",
                          "topk(ratio=x)",
                          "topk(rate=0.1)",
                          "topk(0.1, scope=layer)",
                          "topk(0.1, 0.2)",
                          "threshold(-1)",
                          "threshold(relative=2)",
                          "threshold(1, scope=bucket)",
                          "threshold(keep=0)",
                          "threshold(1, drop=0.5)",
                          "threshold(keep=101%)",
                          "threshold(drop=101%)",
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

}  // namespace
}  // namespace sotto
