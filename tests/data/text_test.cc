#include "app/data/text/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/vocabulary.h"
#include "app/data/unpack.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

std::string text_of(const Text& text) { return {text.tokens.begin(), text.tokens.end()}; }

class TextFiles : public testing::Test {
 protected:
  void write(std::string_view name, std::string_view content) { write_file_atomic(folder_ / name, content); }
  std::string read(Split split, std::string_view file = "") {
    return text_of(*open_text({.data = "text", .data_dir = (folder_ / file).string()}, split));
  }
  test::TemporaryFolder folder_;
};

TEST_F(TextFiles, TheLastTenthIsForTests) {
  write("book", "0123456789abcdefghij\xFF");
  EXPECT_EQ(read(Split::train, "book"), "0123456789abcdefgh");
  EXPECT_EQ(read(Split::test, "book"), "ij\xFF") << "any byte is a token";
}

TEST_F(TextFiles, OfAFolderEachSplitHasItsFile) {
  write("train.txt", "to learn");
  write("valid.txt", "to look at");
  EXPECT_EQ(read(Split::train), "to learn");
  EXPECT_EQ(read(Split::test), "to look at");
  write("test.txt", "to test");
  EXPECT_EQ(read(Split::test), "to test");
}

// "packed text\n", by Python's lzma.compress().
constexpr std::array<std::uint8_t, 68> packed{
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x16,
    0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x0b, 0x70, 0x61, 0x63, 0x6b, 0x65, 0x64, 0x20,
    0x74, 0x65, 0x78, 0x74, 0x0a, 0x00, 0x3a, 0xeb, 0x6e, 0xa4, 0xba, 0xdd, 0x78, 0xcf, 0x00, 0x01, 0x24,
    0x0c, 0xa6, 0x18, 0xd8, 0xd8, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a};

TEST_F(TextFiles, MayBePacked) {
  const auto bytes = std::as_bytes(std::span(packed));
  write_file_atomic(folder_ / "train.txt.xz", bytes);
  EXPECT_EQ(read(Split::train), "packed text\n");
  EXPECT_EQ(find_packed(folder_ / "train.txt"), folder_ / "train.txt.xz");
  for (std::size_t cut = 0; cut < packed.size(); ++cut) {
    write_file_atomic(folder_ / "train.txt.xz", bytes.first(cut));
    EXPECT_NE(error_of<FileError>([&] { read(Split::train); }).find("xz data"), std::string::npos) << cut;
  }
}

// As it is, it would be a text of bytes.
TEST_F(TextFiles, ADamagedBeginningIsNoText) {
  for (const std::string name : {"train.txt.xz", "train.txt.gz"}) {
    for (std::size_t bit = 0; bit < 48; ++bit) {
      auto damaged = packed;
      damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      write_file_atomic(folder_ / name, std::as_bytes(std::span(damaged)));
      const std::string error = error_of<FileError>([&] { read(Split::train); });
      EXPECT_NE(error.find(name), std::string::npos) << bit << ": " << error;
    }
    std::filesystem::remove(folder_ / name);
  }
  write("text.bz2", "BZh91AY&SY");
  EXPECT_NE(error_of<FileError>([&] { read(Split::train, "text.bz2"); }).find("bzip2 packed it; unpack it first"),
            std::string::npos);
}

TEST_F(TextFiles, NameWhatIsWrong) {
  const auto error = [&](std::string_view file) { return error_of<FileError>([&] { read(Split::train, file); }); };
  EXPECT_NE(error("").find("there is no train.txt in it"), std::string::npos);
  EXPECT_NE(error("nowhere").find("nowhere"), std::string::npos);
  write("empty", "");
  EXPECT_NE(error("empty").find("it is empty"), std::string::npos);
  const auto unset = error_of<ConfigError>([] { open_text({.data = "text"}, Split::train); });
  EXPECT_NE(unset.find("text needs data-dir"), std::string::npos) << unset;
}

class TextTokens : public TextFiles {
 protected:
  DataOptions options(std::string_view file = "") const {
    return {.data = "text", .data_dir = (folder_ / file).string(), .tokens = "sentencepiece"};
  }
  // The text that the tokens stand for. A mark ends each line.
  std::string spelled(const Text& text, std::string_view file = "") const {
    const auto vocabulary = open_sentencepiece(text_vocabulary_file(folder_ / file));
    EXPECT_EQ(text.vocabulary, vocabulary->size());
    std::string whole;
    std::vector<std::int64_t> line;
    for (const std::uint16_t token : text.tokens) {
      if (token != 3) {
        line.push_back(token);
        continue;
      }
      whole += vocabulary->decode(line) + "\n";
      line.clear();
    }
    return whole + vocabulary->decode(line);
  }
  static std::uint64_t bytes_of(const Text& text) {
    return std::accumulate(text.bytes.begin(), text.bytes.end(), std::uint64_t{0});
  }
  static std::string prose(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "the cat number " + std::to_string(i % 17) + " sees the other cats\n";
    return text;
  }
};

TEST_F(TextTokens, StandForEveryByte) {
  const std::string text = prose(40) + "  two  spaces \n\n\ttab and return\r\nä ö \u00a0 日本 \xF0\x9F\x98\x80 no end";
  const std::string other = "never seen: \xE2\x82\xAC #~\n" + prose(3);
  write("train.txt", text);
  write("test.txt", other);
  make_text_vocabulary(options(), 320);
  const auto train = open_text(options(), Split::train), test = open_text(options(), Split::test);
  EXPECT_EQ(train->vocabulary, 320);
  EXPECT_EQ(spelled(*train), text);
  EXPECT_EQ(spelled(*test), other);
  for (const auto* half : {train.get(), test.get()}) EXPECT_EQ(half->bytes.size(), half->tokens.size());
  EXPECT_EQ(bytes_of(*train), text.size());
  EXPECT_EQ(bytes_of(*test), other.size());
  EXPECT_LT(train->tokens.size(), text.size() / 2);
  const std::string first = md5_hex(read_file(text_vocabulary_file(folder_.path())));
  std::filesystem::remove(text_vocabulary_file(folder_.path()));
  make_text_vocabulary(options(), 320);
  EXPECT_EQ(md5_hex(read_file(text_vocabulary_file(folder_.path()))), first) << "the same text gives the same model";
}

TEST_F(TextTokens, AreThoseOfVeryLongLinesToo) {
  std::string text;
  while (text.size() < 150'000) text += "a line that never ends, ";
  text += std::string(70'000, 'x');
  for (int i = 0; i < 40'000; ++i) text += "é";
  write("train.txt", text);
  write("test.txt", "a line");
  make_text_vocabulary(options(), 300);
  const auto train = open_text(options(), Split::train);
  EXPECT_EQ(spelled(*train), text);
  EXPECT_EQ(bytes_of(*train), text.size());
}

TEST_F(TextTokens, OfOneFileHaveAModelBesideIt) {
  std::string book = prose(100);
  const std::size_t cut = (book.size() + 3) * 9 / 10;
  book.replace(cut - 1, 0, "\xE2\x82\xAC");  // one of its bytes is before the cut
  write("book", book);
  make_text_vocabulary(options("book"), 300);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "book.sentencepiece.model"));
  const auto train = open_text(options("book"), Split::train), test = open_text(options("book"), Split::test);
  EXPECT_EQ(spelled(*train, "book"), book.substr(0, cut - 1));
  EXPECT_EQ(spelled(*test, "book"), book.substr(cut - 1));
}

TEST_F(TextTokens, NameWhatIsWrong) {
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  const auto error = [&] { return error_of<FileError>([&] { open_text(options("book"), Split::test); }); };
  write("book", prose(100));
  EXPECT_TRUE(has(error(), "book.sentencepiece.model: there is no such file; `sotto data prepare text")) << error();
  write("book.sentencepiece.model", "no model");
  EXPECT_TRUE(has(error(), "not a model of SentencePiece"));
  const auto kept = error_of<FileError>([&] { make_text_vocabulary(options("book"), 300); });
  EXPECT_TRUE(has(kept, "book.sentencepiece.model: is there already, and is not overwritten")) << kept;
  std::filesystem::remove(folder_ / "book.sentencepiece.model");
  const auto few = error_of<ConfigError>([&] { make_text_vocabulary(options("book"), 100); });
  EXPECT_TRUE(has(few, "a vocabulary of 100 tokens: too few for this text, whose characters and marks alone are 2"));
  EXPECT_EQ(few.find("trainer"), std::string::npos) << few;
  const auto many = error_of<ConfigError>([&] { make_text_vocabulary(options("book"), 60'000); });
  EXPECT_TRUE(has(many, "a vocabulary of 60000 tokens: too many for this text, which has pieces for ")) << many;
  EXPECT_EQ(many.find("trainer"), std::string::npos) << many;
  make_text_vocabulary(options("book"), 300);
  write("book", prose(97) + "\xff\n" + prose(2));
  EXPECT_TRUE(has(error(), "book:98: not UTF-8")) << error();
  write("book", "\n\n\n\n");
  const auto nothing = error_of<FileError>([&] { make_text_vocabulary(options("book"), 300); });
  EXPECT_TRUE(has(nothing, "book: it has no line")) << nothing;
  const auto unused = [&](auto open, std::string_view data) {
    return error_of<ConfigError>([&] { open({.data = std::string(data), .tokens = "sentencepiece"}, Split::test); });
  };
  EXPECT_TRUE(has(unused(open_text, "made-text"), "tokens sentencepiece: made-text is made, and reads no files"));
  EXPECT_TRUE(has(unused(open_dataset, "digits"), "tokens sentencepiece: is for text, and these data are images"));
  EXPECT_TRUE(has(unused(open_pairs, "made-pairs"), "is for text, and these data are sentences"));
  EXPECT_TRUE(has(unused(open_rows, "made-rows"), "is for text, and these data are rows of numbers"));
}

std::string digest(const Text& text) {
  const std::string bytes = text_of(text);
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

// The text is made with whole numbers only, so it is the same on every machine.
TEST(MadeText, GoldenBytes) {
  const auto train = open_text({}, Split::train), test = open_text({}, Split::test);
  EXPECT_EQ(train->tokens.size(), 1'000'000U);
  EXPECT_EQ(test->tokens.size(), 100'000U);
  EXPECT_EQ(digest(*test), "7cd4ff3468cfabf9f1054a3b9d4b9066b20d507aa711d6d420713701773d5ab7");
  EXPECT_NE(text_of(*train).substr(0, 1000), text_of(*test).substr(0, 1000));
  EXPECT_NE(digest(*open_text({.data_seed = 2}, Split::test)), digest(*test));
}

TEST(MadeText, IsSentencesOfAFewHundredWords) {
  const std::string text = text_of(*open_text({}, Split::test));
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return std::isalpha(c) || c == ' ' || c == '.' || c == '\n'; }));
  EXPECT_EQ(text[text.find('\n') - 1], '.');
}

}  // namespace
}  // namespace sotto
