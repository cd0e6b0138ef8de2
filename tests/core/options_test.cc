#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "helpers.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

using test::error_of;

struct SampleOptions {
  double ratio = 0.01;
  std::int64_t block = 128;
  bool exact = false;
  std::string scope = "segment";
  std::string folder{};

  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements that are sent", Bounds::share());
    v.option("block", block, "elements a block", {1, 65536});
    v.option("exact", exact, "sort instead of sampling");
    v.option("scope", scope, "what the share is of", {"segment", "bucket"});
    v.option("folder", folder, "where traces go");
  }
  bool operator==(const SampleOptions&) const = default;
};

struct NoOptions {
  void visit(OptionVisitor&) {}
};

template <class Options = SampleOptions>
Options read(const std::string& text) {
  const Expression expression = parse_expression("codec", text);
  Options options;
  read_options(expression, expression.calls.at(0), options);
  return options;
}

TEST(Options, PositionalThenByName) {
  EXPECT_EQ(read("topk"), SampleOptions());
  EXPECT_EQ(read("topk(0.5)"), (SampleOptions{.ratio = 0.5}));
  EXPECT_EQ(read("topk(0.5, 64, on, bucket, here)"),
            (SampleOptions{.ratio = 0.5, .block = 64, .exact = true, .scope = "bucket", .folder = "here"}));
  EXPECT_EQ(read("topk(5%, scope=bucket, exact=yes)"),
            (SampleOptions{.ratio = 0.05, .exact = true, .scope = "bucket"}));
}

TEST(Options, RecordReadsBackAsTheSame) {
  const SampleOptions defaults;
  EXPECT_EQ(record_options("topk", defaults), "topk(ratio=0.01, block=128, exact=false, scope=segment, folder=)");
  EXPECT_EQ(record_options("sign", NoOptions()), "sign");
  Philox random(3, Purpose::test);
  for (int i = 0; i < 1000; ++i) {
    const SampleOptions options{.ratio = 1 - random.uniform() * std::pow(10.0, -random.uniform() * 12),
                                .block = 1 + random.below(65536),
                                .exact = random.below(2) == 0,
                                .scope = random.below(2) == 0 ? "segment" : "bucket",
                                .folder = random.below(2) == 0 ? "" : "(a, b | c)"};
    ASSERT_EQ(read(record_options("topk", options)), options);
  }
}

TEST(Options, HelpHasALineAnOption) {
  EXPECT_EQ(help_options(SampleOptions()),
            "  ratio=0.01      share of the elements that are sent, in (0, 1]\n"
            "  block=128       elements a block, in [1, 65536]\n"
            "  exact=false     sort instead of sampling\n"
            "  scope=segment   what the share is of, one of segment, bucket\n"
            "  folder=         where traces go\n");
  EXPECT_EQ(help_options(NoOptions()), "");
}

TEST(Options, ErrorsPutACaretUnderTheArgument) {
  struct Bad {
    const char* text;
    const char* message;  // the whole message
  };
  const Bad all[] = {{"topk(ratio= 0)",
                      "codec topk(ratio= 0): ratio must be in (0, 1]\n"
                      "  topk(ratio= 0)\n"
                      "              ^"},
                     {"topk(101%)",
                      "codec topk(101%): ratio must be in (0, 1]\n"
                      "  topk(101%)\n"
                      "       ^"},
                     {"topk(nan)",
                      "codec topk(nan): ratio must be a number, not `nan`\n"
                      "  topk(nan)\n"
                      "       ^"},
                     {"topk(0.1x)",
                      "codec topk(0.1x): ratio must be a number, not `0.1x`\n"
                      "  topk(0.1x)\n"
                      "       ^"},
                     {"topk(block=1.5)",
                      "codec topk(block=1.5): block must be a whole number, not `1.5`\n"
                      "  topk(block=1.5)\n"
                      "             ^"},
                     {"topk(block=0)",
                      "codec topk(block=0): block must be in [1, 65536]\n"
                      "  topk(block=0)\n"
                      "             ^"},
                     {"topk(exact=maybe)",
                      "codec topk(exact=maybe): exact must be true or false, not `maybe`\n"
                      "  topk(exact=maybe)\n"
                      "             ^"},
                     {"topk(scope=rows)",
                      "codec topk(scope=rows): scope must be one of segment, bucket, not `rows`\n"
                      "  topk(scope=rows)\n"
                      "             ^"},
                     {"topk(block=)",
                      "codec topk(block=): block must be a whole number, not ``\n"
                      "  topk(block=)\n"
                      "             ^"},
                     {"topk(0.1, ratoi=1)",
                      "codec topk(0.1, ratoi=1): unknown option `ratoi`; did you mean `ratio`? known: "
                      "ratio, block, exact, scope, folder\n"
                      "  topk(0.1, ratoi=1)\n"
                      "            ^"},
                     {"topk(0.1, ratio=1)",
                      "codec topk(0.1, ratio=1): ratio is given twice\n"
                      "  topk(0.1, ratio=1)\n"
                      "            ^"},
                     {"topk(ratio=1, ratio=1)",
                      "codec topk(ratio=1, ratio=1): ratio is given twice\n"
                      "  topk(ratio=1, ratio=1)\n"
                      "                ^"},
                     {"topk(ratio=1, 64)",
                      "codec topk(ratio=1, 64): an argument without a name cannot follow one with a name\n"
                      "  topk(ratio=1, 64)\n"
                      "                ^"},
                     {"topk(1, 2, no, bucket, a, b)",
                      "codec topk(1, 2, no, bucket, a, b): too many arguments; `topk` takes "
                      "ratio, block, exact, scope, folder\n"
                      "  topk(1, 2, no, bucket, a, b)\n"
                      "                            ^"}};
  for (const Bad& bad : all) EXPECT_EQ(error_of<ConfigError>([&] { read(bad.text); }), bad.message);
}

TEST(Options, ACallWithoutOptionsTakesNone) {
  EXPECT_EQ(error_of<ConfigError>([] { read<NoOptions>("sign(3)"); }),
            "codec sign(3): `sign` takes no arguments\n"
            "  sign(3)\n"
            "       ^");
  read<NoOptions>("sign()");
}

TEST(Bounds, OpenAndClosedEnds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Bounds::share().text(), "(0, 1]");
  EXPECT_FALSE(Bounds::share().contains(0));
  EXPECT_TRUE(Bounds::share().contains(1));
  EXPECT_FALSE(Bounds::share().contains(nan));
  EXPECT_EQ(Bounds::at_least(0).text(), "[0, inf)");
  EXPECT_TRUE(Bounds::at_least(0).contains(0));
  EXPECT_FALSE(Bounds::at_least(0).contains(infinity));
  EXPECT_EQ(Bounds::positive().text(), "(0, inf)");
  EXPECT_FALSE(Bounds::positive().contains(0));
  EXPECT_EQ((Bounds{0, 1, false, true}.text()), "[0, 1)");
  EXPECT_FALSE((Bounds{0, 1, false, true}.contains(1)));
  EXPECT_TRUE(Bounds().contains(-1e300));
}

TEST(Values, Numbers) {
  EXPECT_EQ(parse_int("n", "-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* bad : {"", "9223372036854775808", "1e3", "+1", " 1", "1 ", "0x10", "5%"}) {
    error_of<ConfigError>([&] { parse_int("n", bad); });
  }
  EXPECT_EQ(parse_double("x", "1e-3"), 1e-3);
  for (const char* bad : {"", "%", "inf", "-inf", "nan", "1e999", "0x1p3", "1,5", "5%%", " 5"}) {
    error_of<ConfigError>([&] { parse_double("x", bad); });
  }
}

TEST(Values, NumbersThatAreTooLargeAreCalledThat) {
  EXPECT_EQ(error_of<ConfigError>([] { parse_int("n", "9223372036854775808"); }),
            "n is too large: `9223372036854775808`");
  EXPECT_EQ(error_of<ConfigError>([] { parse_int("n", "-99999999999999999999"); }),
            "n is too large: `-99999999999999999999`");
  EXPECT_EQ(error_of<ConfigError>([] { parse_int("n", "9223372036854775808x"); }),
            "n must be a whole number, not `9223372036854775808x`");
  EXPECT_EQ(error_of<ConfigError>([] { parse_double("x", "1e999"); }), "x is too large, or too near 0: `1e999`");
  EXPECT_EQ(error_of<ConfigError>([] { parse_double("x", "1e-999"); }), "x is too large, or too near 0: `1e-999`");
}

TEST(Values, PercentagesAreTheNumbersThatTheyName) {
  EXPECT_EQ(parse_double("x", "5%"), 0.05);
  EXPECT_EQ(parse_double("x", "0.7%"), 0.007);  // 0.7 / 100 is another number
  EXPECT_EQ(parse_double("x", "100%"), 1.0);
}

TEST(Values, FormattedDoublesReadBack) {
  EXPECT_EQ(format_double(0.01), "0.01");
  EXPECT_EQ(format_double(1), "1");
  EXPECT_EQ(format_double(0.1 + 0.2), "0.30000000000000004");
  Philox random(4, Purpose::test);
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.normal() * std::pow(10.0, 600 * random.uniform() - 300);
    ASSERT_EQ(parse_double("x", format_double(value)), value);
  }
}

}  // namespace
}  // namespace sotto
