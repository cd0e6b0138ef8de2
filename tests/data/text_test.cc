#include "sotto/data/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/data/unpack.h"
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

TEST_F(TextFiles, TheLastTenthOfOneFileIsForTests) {
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
  for (std::size_t cut = 6; cut < packed.size(); ++cut) {
    write_file_atomic(folder_ / "train.txt.xz", bytes.first(cut));
    EXPECT_NE(error_of<FileError>([&] { read(Split::train); }).find("xz data"), std::string::npos) << cut;
  }
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

std::string digest(const Text& text) {
  const std::string bytes = text_of(text);
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

// Whole numbers alone make it, so the same text is made everywhere.
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
