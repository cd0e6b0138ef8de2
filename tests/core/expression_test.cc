#include <gtest/gtest.h>

#include <array>
#include <string>

#include "helpers.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/random.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

using test::error_of;

TEST(Expression, CallsAndArguments) {
  const Expression s = parse_expression("codec", " ef|topk( 0.01 , scope = bucket )  |\n qsgd ( bits=4 ) | f32() ");
  EXPECT_EQ(s.option, "codec");
  ASSERT_EQ(s.calls.size(), 4U);
  EXPECT_EQ(s.calls[0].name, "ef");
  EXPECT_TRUE(s.calls[0].arguments.empty());
  const Call& topk = s.calls[1];
  EXPECT_EQ(topk.name, "topk");
  ASSERT_EQ(topk.arguments.size(), 2U);
  EXPECT_EQ(topk.arguments[0].key, "");
  EXPECT_EQ(topk.arguments[0].value, "0.01");
  EXPECT_EQ(topk.arguments[1].key, "scope");
  EXPECT_EQ(topk.arguments[1].value, "bucket");
  EXPECT_EQ(s.text.substr(topk.position, 4), "topk");
  EXPECT_EQ(s.text.substr(topk.arguments[0].value_position, 4), "0.01");
  EXPECT_EQ(s.text.substr(topk.arguments[1].position, 5), "scope");
  EXPECT_EQ(s.text.substr(topk.arguments[1].value_position, 6), "bucket");
  EXPECT_EQ(text_of(s, s.calls[0]), "ef");
  EXPECT_EQ(text_of(s, s.calls[1]), "topk( 0.01 , scope = bucket )");
  EXPECT_EQ(text_of(s, s.calls[2]), "qsgd ( bits=4 )");
  EXPECT_TRUE(s.calls[3].arguments.empty());
  EXPECT_EQ(text_of(s, s.calls[3]), "f32()");
}

TEST(Expression, ValuesHoldExpressions) {
  const Expression s =
      parse_expression("aggregator", "hierarchical(inner=(ef | topk(0.01, scope=row)), f(g(1), 2), dir=)");
  ASSERT_EQ(s.calls.size(), 1U);
  ASSERT_EQ(s.calls[0].arguments.size(), 3U);
  EXPECT_EQ(s.calls[0].arguments[0].value, "(ef | topk(0.01, scope=row))");
  EXPECT_EQ(s.calls[0].arguments[1].key, "");
  EXPECT_EQ(s.calls[0].arguments[1].value, "f(g(1), 2)");
  EXPECT_EQ(s.calls[0].arguments[2].key, "dir");
  EXPECT_EQ(s.calls[0].arguments[2].value, "");
  EXPECT_EQ(text_of(s, s.calls[0]), s.text);
}

TEST(Expression, NamesAndKeysMayHoldDigitsAndDashes) {
  const Expression s = parse_expression("x", "step-lr_2(at-most=-1e-3, 30/60/80, 5%)");
  EXPECT_EQ(s.calls[0].name, "step-lr_2");
  EXPECT_EQ(s.calls[0].arguments[0].key, "at-most");
  EXPECT_EQ(s.calls[0].arguments[0].value, "-1e-3");
  EXPECT_EQ(s.calls[0].arguments[1].value, "30/60/80");
  EXPECT_EQ(s.calls[0].arguments[2].value, "5%");
}

TEST(Expression, ErrorsPutACaretUnderTheCharacter) {
  struct Bad {
    const char* text;
    const char* message;  // the whole message
  };
  const Bad all[] = {{"", "codec: it is empty; leave it out, or say what it is to be"},
                     {" \t", "codec: it is empty; leave it out, or say what it is to be"},
                     {"ef |",
                      "codec: expected a name, found the end\n"
                      "  ef |\n"
                      "      ^"},
                     {"| ef",
                      "codec: expected a name, found `|`\n"
                      "  | ef\n"
                      "  ^"},
                     {"ef || topk",
                      "codec: expected a name, found `|`\n"
                      "  ef || topk\n"
                      "      ^"},
                     {"8bit",
                      "codec: expected a name, found `8`\n"
                      "  8bit\n"
                      "  ^"},
                     {"topk(0.1) f32",
                      "codec: expected `|` or the end, found `f`\n"
                      "  topk(0.1) f32\n"
                      "            ^"},
                     {"topk(0.1))",
                      "codec: expected `|` or the end, found `)`\n"
                      "  topk(0.1))\n"
                      "           ^"},
                     {"topk(0.1",
                      "codec: expected `,` or `)`, found the end\n"
                      "  topk(0.1\n"
                      "          ^"},
                     {"topk(0.1 | f32",
                      "codec: expected `,` or `)`, found `|`; a value with `|` wants parentheses\n"
                      "  topk(0.1 | f32\n"
                      "           ^"},
                     {"a(k=1=2)",
                      "codec: expected `,` or `)`, found `=`\n"
                      "  a(k=1=2)\n"
                      "       ^"},
                     {"topk(,)",
                      "codec: expected an argument, found `,`\n"
                      "  topk(,)\n"
                      "       ^"},
                     {"topk(1,)",
                      "codec: expected an argument, found `)`\n"
                      "  topk(1,)\n"
                      "         ^"},
                     {"topk(",
                      "codec: expected an argument, found the end\n"
                      "  topk(\n"
                      "       ^"},
                     {"f(a=(b | (c)",
                      "codec: `(` is never closed\n"
                      "  f(a=(b | (c)\n"
                      "      ^"},
                     {"f(((1)",
                      "codec: `(` is never closed\n"
                      "  f(((1)\n"
                      "    ^"},
                     {"t\xC3\xB6pk",
                      "codec: byte 0xc3 is not allowed\n"
                      "  t??pk\n"
                      "   ^"},
                     {"ef\t|\x01",
                      "codec: byte 0x01 is not allowed\n"
                      "  ef |?\n"
                      "      ^"}};
  for (const Bad& bad : all) {
    EXPECT_EQ(error_of<ConfigError>([&] { parse_expression("codec", bad.text); }), bad.message);
  }
}

TEST(Expression, FailAtShowsTheCall) {
  const Expression s = parse_expression("codec", "ef | topk(1.5)");
  const Call& call = s.calls[1];
  const std::string message =
      error_of<ConfigError>([&] { fail_at(s, call, call.arguments[0].value_position, "ratio must be in (0, 1]"); });
  EXPECT_EQ(message,
            "codec topk(1.5): ratio must be in (0, 1]\n"
            "  ef | topk(1.5)\n"
            "            ^");
}

// Any bytes are an expression or a ConfigError, with a caret unless nothing was said, and the calls of an expression
// lie inside its text.
TEST(Expression, RandomTexts) {
  constexpr std::string_view alphabet = "ab1(()),||== \t%._-\x00\xFF";
  Philox random(1, Purpose::test);
  int good = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text(random.below(14), ' ');
    const bool any = random.below(8) == 0;
    for (char& c : text) {
      c = any ? static_cast<char>(random.below(256))
              : alphabet[random.below(static_cast<std::uint32_t>(alphabet.size()))];
    }
    try {
      const Expression s = parse_expression("x", text);
      ++good;
      ASSERT_FALSE(s.calls.empty());
      for (const Call& call : s.calls) {
        ASSERT_EQ(text_of(s, call).substr(0, call.name.size()), call.name);
        // The text of a call, parsed alone, gives the same call.
        const Expression again = parse_expression("x", text_of(s, call));
        ASSERT_EQ(again.calls.size(), 1U) << text;
        ASSERT_EQ(again.calls[0].arguments.size(), call.arguments.size()) << text;
        for (std::size_t j = 0; j < call.arguments.size(); ++j) {
          const Argument& argument = call.arguments[j];
          ASSERT_EQ(again.calls[0].arguments[j].key, argument.key) << text;
          ASSERT_EQ(again.calls[0].arguments[j].value, argument.value) << text;
          ASSERT_EQ(s.text.substr(argument.value_position, argument.value.size()), argument.value) << text;
        }
      }
    } catch (const ConfigError& error) {
      const bool blank = text.find_first_not_of(" \t\n\r") == std::string::npos;
      ASSERT_EQ(std::string_view(error.what()).ends_with('^'), !blank) << text;
    }
    try {
      const Expression arguments = parse_arguments("x", text, text.size() / 2);
      ASSERT_EQ(text_of(arguments, arguments.calls.at(0)), text);
    } catch (const ConfigError& error) {
      ASSERT_TRUE(std::string_view(error.what()).ends_with('^')) << text;
    }
  }
  EXPECT_GT(good, 250);
}

constexpr std::array<std::string_view, 5> stages{"f32", "qsgd", "sampled_topk", "threshold", "topk"};

TEST(NearestName, WithinAFewSlips) {
  EXPECT_EQ(nearest_name("tpok", stages), "topk");
  EXPECT_EQ(nearest_name("TopK", stages), "topk");
  EXPECT_EQ(nearest_name("treshhold", stages), "threshold");
  EXPECT_EQ(nearest_name("sampled", stages), "sampled_topk");
  EXPECT_EQ(nearest_name("sa", stages), "");
  EXPECT_EQ(nearest_name("f16", stages), "");
  EXPECT_EQ(nearest_name("atomo", stages), "");
  EXPECT_EQ(nearest_name("", stages), "");
  EXPECT_EQ(nearest_name("topk", {}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), stages), "");
}

TEST(Error, ControlCharactersAreReadable) {
  const std::string text("a\0b\x1B[1m\n\tc", 10);
  EXPECT_STREQ(FileError(text).what(), "a\\x00b\\x1b[1m\n\tc");
  EXPECT_EQ(ConfigError(named("codec", text) + text).text(plain_spelling),
            "codec a\\x00b\\x1b[1m\n\tca\\x00b\\x1b[1m\n\tc");
}

TEST(UnknownName, SaysWhatIsKnown) {
  EXPECT_EQ(unknown_name("codec stage", "tpok", stages),
            "unknown codec stage `tpok`; did you mean `topk`? known: f32, qsgd, sampled_topk, threshold, topk");
  EXPECT_EQ(unknown_name("codec stage", "atomo", stages),
            "unknown codec stage `atomo`; known: f32, qsgd, sampled_topk, threshold, topk");
}

TEST(Table, NamesTheNearest) {
  struct Entry {
    std::string_view name;
    AnyOptions (*options)();
  };
  const auto none = [] { return AnyOptions(); };
  const std::array<Entry, 2> entries{{{"topk", none}, {"f32", none}}};
  const Table<Entry> table("codec stage", entries);
  const Expression s = parse_expression("codec", "f32 | tpok");
  EXPECT_EQ(table.read(s, s.calls[0]).entry, &entries[1]);
  EXPECT_EQ(error_of<ConfigError>([&] { table.read(s, s.calls[1]); }),
            "codec tpok: unknown codec stage `tpok`; did you mean `topk`? known: topk, f32\n"
            "  f32 | tpok\n"
            "        ^");
  EXPECT_EQ(&table.require("stage", "topk"), &entries[0]);
  EXPECT_EQ(error_of<ConfigError>([&] { table.require("stage", "tpok"); }),
            "stage: unknown codec stage `tpok`; did you mean `topk`? known: topk, f32");
}

}  // namespace
}  // namespace sotto
