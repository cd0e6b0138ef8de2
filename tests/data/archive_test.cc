// Tar archives made here, whole and damaged.
#include "sotto/data/unpack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

std::string tar_entry(std::string_view name, std::string_view content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header.replace(148, 8, "        ");
  header[156] = type;
  const unsigned sum = std::accumulate(header.begin(), header.end(), 0U,
                                       [](unsigned all, char c) { return all + static_cast<unsigned char>(c); });
  header.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  std::string entry = header + std::string(content);
  entry.resize((entry.size() + 511) / 512 * 512);
  return entry;
}

class Tar : public testing::Test {
 protected:
  void unpack(std::string_view archive) {
    write_file_atomic(folder_ / "x.tar", archive);
    unpack_tar(folder_ / "x.tar", ".bin", folder_.path());
  }
  bool is_refused(std::string_view archive) {
    return test::error_of<FileError>([&] { unpack(archive); }).ends_with("x.tar: damaged or truncated tar archive");
  }
  bool there(std::string_view name) const { return std::filesystem::exists(folder_ / name); }

  test::TemporaryFolder folder_;
  std::string whole_ = tar_entry("set/", "", '5') + tar_entry("set/one.bin", std::string(700, 'a')) +
                       tar_entry("set/readme.html", "text") + tar_entry("../../up.bin", "") +
                       tar_entry("link.bin", "", '2') + std::string(1024, '\0');
};

TEST_F(Tar, FilesOfOneEndingAreWrittenHere) {
  unpack(whole_);
  const std::vector<std::byte> one = read_file(folder_ / "one.bin");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(one.data()), one.size()), std::string(700, 'a'));
  EXPECT_TRUE(there("up.bin")) << "in this folder, whatever its name says";
  EXPECT_FALSE(there("readme.html") || there("link.bin") || there("set"));
}

TEST_F(Tar, EveryDamageOfAHeaderAndEveryTruncationIsAnError) {
  for (const std::size_t at : {0, 124, 130, 150, 156, 511}) {
    std::string damaged = whole_;
    damaged[512 + at] ^= 1;
    EXPECT_TRUE(is_refused(damaged)) << at;
  }
  const std::size_t end = whole_.size() - 1024;
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, std::size_t{1025}, std::size_t{1700}, end}) {
    EXPECT_TRUE(is_refused(whole_.substr(0, length))) << length;
  }
  unpack(whole_.substr(0, end + 512));  // one empty block is enough
}

}  // namespace
}  // namespace sotto
