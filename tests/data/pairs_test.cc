#include "app/data/text/pairs.h"

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

class ParallelText : public testing::Test {
 protected:
  ParallelText() {
    write("train.de", german_);
    write("train.en", english_);
    write("test.de", "ein Hund und eine Katze\n");
    write("test.en", "a dog and a cat\n");
  }
  void write(std::string_view name, std::string_view content) { write_file_atomic(folder_ / name, content); }
  std::unique_ptr<Pairs> open(Split split) { return open_pairs(options_, split); }
  std::string error(Split split) {
    return error_of<FileError>([&] { open(split); });
  }
  static bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

  const std::string german_ = "ein Hund läuft\neine Katze schläft\nein Hund schläft und eine Katze läuft\n";
  const std::string english_ = "a dog runs\na cat sleeps\na dog sleeps and a cat runs\n";
  test::TemporaryFolder folder_;
  DataOptions options_{.data = "parallel", .data_dir = folder_.path().string()};
};

TEST_F(ParallelText, IsCutByAVocabularyOfItsOwn) {
  make_pair_vocabulary(options_, 40);
  const auto train = open(Split::train), test = open(Split::test);
  EXPECT_EQ(train->size(), 3U);
  EXPECT_EQ(train->vocabulary->size(), 40);
  EXPECT_EQ(test->references[0], "a dog and a cat");
  const auto text_of = [&](const std::vector<std::uint16_t>& tokens) {
    return train->vocabulary->decode(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
  };
  EXPECT_EQ(text_of(train->sources[1]), "eine Katze schläft");
  EXPECT_EQ(text_of(train->targets[2]), "a dog sleeps and a cat runs");
  const std::string first = md5_hex(read_file(pair_vocabulary_file(folder_.path())));
  std::filesystem::remove(pair_vocabulary_file(folder_.path()));
  make_pair_vocabulary(options_, 40);
  EXPECT_EQ(md5_hex(read_file(pair_vocabulary_file(folder_.path()))), first) << "the same text gives the same model";
  options_.languages = "en-de";
  EXPECT_EQ(open(Split::test)->references[0], "ein Hund und eine Katze");
  options_.train_size = 2;
  EXPECT_EQ(open(Split::train)->size(), 2U);
}

TEST_F(ParallelText, NamesWhatIsWrong) {
  EXPECT_TRUE(has(error(Split::train), "sentencepiece.model: there is no such file; `sotto data prepare parallel"));
  make_pair_vocabulary(options_, 40);
  write("train.en", english_ + "surplus\n");
  EXPECT_TRUE(has(error(Split::train), "train.en has 4; they must be pairs")) << error(Split::train);
  write("train.en", "a\n \nb\n");
  EXPECT_TRUE(has(error(Split::train), "train.en:2: an empty line"));
  for (const std::string_view bad : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe0\x80\x80"}) {
    write("train.en", "a\nb\n" + std::string(bad) + "\n");
    EXPECT_TRUE(has(error(Split::train), "train.en:3: not UTF-8")) << testing::PrintToString(bad);
  }
  write("train.en", "a\nb\n\xf0\x9f\x98\x80 \xef\xbf\xbd\n");
  EXPECT_EQ(open(Split::train)->size(), 3U) << "which is UTF-8";
  std::filesystem::remove(folder_ / "test.en");
  EXPECT_TRUE(has(error(Split::test), "test.en: there is no such file"));
  write("sentencepiece.model", "no model");
  EXPECT_TRUE(has(error(Split::train), "not a model of SentencePiece"));
  options_.languages = "deen";
  EXPECT_TRUE(has(error_of<ConfigError>([&] { open(Split::train); }), "languages deen: say from which"));
  options_.languages = "de-en";
  EXPECT_TRUE(has(error_of<FileError>([&] { make_pair_vocabulary(options_, 40); }), "sentencepiece.model: is there"));
  std::filesystem::remove(folder_ / "sentencepiece.model");
  EXPECT_TRUE(has(error_of<ConfigError>([&] { make_pair_vocabulary(options_, 5000); }),
                  "a vocabulary of 5000 tokens: too many for this text, which has pieces for "));
}

TEST(MadePairs, AreTheSameBackwardsInOtherWords) {
  const auto pairs = open_pairs({.train_size = 50}, Split::train);
  EXPECT_EQ(pairs->size(), 50U);
  for (std::size_t i = 0; i < 50; ++i) {
    std::vector<std::uint16_t> backwards(pairs->targets[i].rbegin(), pairs->targets[i].rend());
    for (std::uint16_t& word : backwards) word -= 48;
    EXPECT_EQ(backwards, pairs->sources[i]);
    EXPECT_EQ(pairs->vocabulary->encode(pairs->references[i]), pairs->targets[i]);
    for (const std::uint16_t token : pairs->targets[i]) EXPECT_LT(token, pairs->vocabulary->size());
  }
  EXPECT_EQ(pairs->vocabulary->encode("bana nothing")[1], 1) << "unknown";
}

}  // namespace
}  // namespace sotto
