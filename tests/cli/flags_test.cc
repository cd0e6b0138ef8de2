#include "app/cli/flags.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

struct Sample {
  bool overlap = true;
  std::int64_t ranks = 1;
  double lr = 0.1;
  std::string codec = "none";
  std::string mode = "a";
  void visit(OptionVisitor& v) {
    v.option("overlap", overlap, "send early");
    v.option("ranks", ranks, "number of processes", {1, 8});
    v.option("lr", lr, "learning rate", Bounds::positive());
    v.option("codec", codec, "what is sent");
    v.option("mode", mode, "how", {"a", "b"});
  }
};

Sample read(const std::vector<std::string>& arguments) {
  Sample sample;
  Flags flags("test", "A test.", "");
  flags.alias("codec", "compressor");
  flags.add(sample);
  EXPECT_TRUE(flags.parse(arguments));
  flags.assign(sample);
  return sample;
}

std::string error_of(const std::vector<std::string>& arguments) {
  try {
    read(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Flags, KeepDefaults) {
  const Sample sample = read({});
  EXPECT_TRUE(sample.overlap);
  EXPECT_EQ(sample.ranks, 1);
}

TEST(Flags, ReadEveryKind) {
  const Sample sample = read({"--no-overlap", "--ranks", "4", "--lr=5%", "--codec", "ef | topk(0.01)", "--mode", "b"});
  EXPECT_FALSE(sample.overlap);
  EXPECT_EQ(sample.ranks, 4);
  EXPECT_EQ(sample.lr, 0.05);
  EXPECT_EQ(sample.codec, "ef | topk(0.01)");
  EXPECT_EQ(sample.mode, "b");
}

TEST(Flags, ReadBooleansInEveryForm) {
  EXPECT_TRUE(read({"--overlap"}).overlap);
  EXPECT_TRUE(read({"--overlap=true"}).overlap);
  EXPECT_FALSE(read({"--overlap=false"}).overlap);
  EXPECT_FALSE(read({"--overlap=off"}).overlap);
  EXPECT_NE(error_of({"--overlap=maybe"}), "");
  EXPECT_EQ(error_of({"--overlap", "--no-overlap"}),
            "--overlap: it is given both ways, as true and as false; say one of them");
  EXPECT_FALSE(read({"--no-overlap", "--no-overlap"}).overlap);
}

TEST(Flags, KnowOtherNames) { EXPECT_EQ(read({"--compressor", "int8"}).codec, "int8"); }

TEST(Flags, NameTheFlagAndTheValue) {
  EXPECT_EQ(error_of({"--lr", "-1"}), "--lr -1: must be in (0, inf)");
  EXPECT_EQ(error_of({"--ranks", "9"}), "--ranks 9: must be in [1, 8]");
  EXPECT_EQ(error_of({"--ranks", "two"}), "--ranks two: must be a whole number, not `two`");
  EXPECT_EQ(error_of({"--lr", "nan"}), "--lr nan: must be a number, not `nan`");
  EXPECT_EQ(error_of({"--mode", "c"}), "--mode c: must be one of a, b, not `c`");
}

TEST(Flags, SuggestWhatWasMeant) {
  EXPECT_EQ(error_of({"--rank", "2"}),
            "sotto test: unknown option --rank; did you mean --ranks? see sotto test --help");
  EXPECT_EQ(error_of({"--zzz=1"}), "sotto test: unknown option --zzz; see sotto test --help");
  EXPECT_EQ(error_of({"stray"}), "sotto test: unexpected argument `stray`; see sotto test --help");
}

TEST(Flags, RefuseWhatIsIncompleteOrTwice) {
  EXPECT_EQ(error_of({"--lr"}), "--lr: it needs a value; see sotto test --help");
  EXPECT_EQ(error_of({"--codec", "--lr", "1"}), "--codec: it needs a value, and --lr follows; see sotto test --help");
  EXPECT_EQ(error_of({"--lr", "1", "--lr=2"}), "--lr: it is given twice; say it once");
  EXPECT_EQ(error_of({"--codec", "none", "--compressor", "int8"}), "--compressor: it is given twice; say it once");
}

TEST(Flags, ValuesMayBeginWithADash) {
  EXPECT_EQ(read({"--codec=--odd"}).codec, "--odd");
  EXPECT_EQ(read({"--codec", "-odd"}).codec, "-odd");
}

TEST(Flags, TakeListsTogetherOrOneByOne) {
  const std::vector<std::string> expected{"none", "ef | topk(0.01)"};
  for (const auto& arguments :
       {std::vector<std::string>{"--codecs", "none", "ef | topk(0.01)", "--ranks", "2"},
        std::vector<std::string>{"--codecs", "none", "--ranks", "2", "--codec", "ef | topk(0.01)"}}) {
    std::vector<std::string> codecs{"a default"};
    Sample sample;
    Flags flags("test", "A test.", "");
    flags.alias("codecs", "codec");
    flags.add_list("codecs", codecs, "what to compare");
    flags.add(sample);
    ASSERT_TRUE(flags.parse(arguments));
    flags.assign(sample);
    EXPECT_EQ(codecs, expected);
    EXPECT_EQ(sample.ranks, 2);
  }
}

TEST(Flags, PositionalArguments) {
  std::string name;
  Flags flags("test", "A test.", "");
  flags.add_positional("name", name, "which", true);
  ASSERT_TRUE(flags.parse(std::vector<std::string>{"mnist"}));
  EXPECT_EQ(name, "mnist");
  Flags again("test", "A test.", "");
  again.add_positional("name", name, "which", true);
  EXPECT_THROW(again.parse(std::vector<std::string>{}), ConfigError);
}

TEST(Flags, SeveralPositionalArgumentsAndALetter) {
  std::vector<std::string> names;
  Sample sample;
  Flags flags("test", "A test.", "");
  flags.alias("codec", "c");
  flags.add_positionals("name", names, "which");
  flags.add(sample);
  ASSERT_TRUE(flags.parse(std::vector<std::string>{"a", "b", "-c", "int8", "c"}));
  flags.assign(sample);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(sample.codec, "int8");
  testing::internal::CaptureStdout();
  EXPECT_FALSE(flags.parse(std::vector<std::string>{"--help"}));
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_NE(help.find("-c, --codec TEXT"), std::string::npos) << help;
}

TEST(Flags, HelpShowsGroupsDefaultsAndRanges) {
  Sample sample;
  Flags flags("test", "A test.", "\nExamples: none");
  const std::array<FlagGroup, 2> groups{{{"First", {"lr"}}, {"Others", {}}}};
  flags.add(sample, groups);
  testing::internal::CaptureStdout();
  EXPECT_FALSE(flags.parse(std::vector<std::string>{"--help"}));
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* part : {"A test.", "First:", "Others:", "--lr X", "learning rate, in (0, inf) [0.1]",
                           "--overlap, --no-overlap", "how: a, b [a]", "Examples: none"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
}

TEST(Flags, GoThereAndBack) {
  Sample sample;
  sample.overlap = false;
  sample.lr = 1e-3;
  sample.codec = "ef | topk(ratio=0.01, scope=segment)";
  const Sample back = read(to_flags(sample));
  EXPECT_EQ(back.overlap, sample.overlap);
  EXPECT_EQ(back.lr, sample.lr);
  EXPECT_EQ(back.codec, sample.codec);
  sample.codec = "";
  EXPECT_EQ(read(to_flags(sample)).codec, "") << "said, though it is empty";
}

}  // namespace
}  // namespace sotto
