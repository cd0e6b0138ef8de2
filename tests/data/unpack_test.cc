// Archives made here, whole and damaged.
#include "app/data/unpack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libdeflate.h>

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
    unpack_tar(
        folder_ / "x.tar", [](std::string_view name) { return name.ends_with(".bin"); }, folder_.path());
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

TEST_F(Tar, DamagedHeadersAndTruncationsAreErrors) {
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

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

std::string deflated(const std::string& content) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string packed(libdeflate_deflate_compress_bound(compressor, content.size()), '\0');
  packed.resize(libdeflate_deflate_compress(compressor, content.data(), content.size(), packed.data(), packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

class Zip : public testing::Test {
 protected:
  // Adds a file, and its line of the list.
  void add(const std::string& name, const std::string& content, bool packs) {
    const std::string packed = packs ? deflated(content) : content;
    const std::string sizes = little(libdeflate_crc32(0, content.data(), content.size()), 4) +
                              little(packed.size(), 4) + little(content.size(), 4);
    const std::string method = little(packs ? 8 : 0, 2) + little(0, 4);
    list_ += "PK\x01\x02" + little(20, 2) + little(20, 2) + little(0, 2) + method + sizes + little(name.size(), 2) +
             little(3, 2) + little(2, 2) + little(0, 8) + little(files_.size(), 4) + name + "abc" + "de";
    files_ += "PK\x03\x04" + little(20, 2) + little(0, 2) + method + sizes + little(name.size(), 2) + little(1, 2) +
              name + "x" + packed;
    ++count_;
  }
  std::string whole(const std::string& comment = "") const {
    return files_ + list_ + "PK\x05\x06" + little(0, 4) + little(count_, 2) + little(count_, 2) +
           little(list_.size(), 4) + little(files_.size(), 4) + little(comment.size(), 2) + comment;
  }
  void unpack(std::string_view archive) {
    write_file_atomic(folder_ / "x.zip", archive);
    unpack_zip(
        folder_ / "x.zip", [](std::string_view name) { return name.starts_with("own-"); }, folder_.path());
  }
  std::string text(std::string_view name) const { return read_text(folder_ / name); }
  bool there(std::string_view name) const { return std::filesystem::exists(folder_ / name); }

  void SetUp() override {
    add("gzip/", "", false);
    add("gzip/own-one", std::string(5000, 'a') + "end", true);
    add("gzip/other-one", "b", true);
    add("../../own-two", "stored", false);
    add("own-three", "", true);
  }

  test::TemporaryFolder folder_;
  std::string files_, list_;
  unsigned count_ = 0;
};

TEST_F(Zip, WantedFilesAreWrittenHere) {
  for (const std::string comment : {"", "a comment", "PK\x05 no end", "PK\x05\x06 no end either", "PK\x05\x06"}) {
    unpack(whole(comment));
    EXPECT_EQ(text("own-one"), std::string(5000, 'a') + "end");
    EXPECT_EQ(text("own-two"), "stored");
    EXPECT_EQ(text("own-three"), "");
    EXPECT_FALSE(there("other-one") || there("gzip"));
  }
}

TEST_F(Zip, DamageOfAWantedFileIsAnError) {
  const std::string archive = whole();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < archive.size(); ++at) {
    std::string damaged = archive;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    for (const char* name : {"own-one", "own-two", "own-three"}) std::filesystem::remove(folder_ / name);
    try {
      unpack(damaged);
    } catch (const FileError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("cannot unpack")) << error.what();
      ++refused;
      continue;
    }
    // Whatever is written is right: the other bits are names, dates and versions, and what is not wanted.
    EXPECT_TRUE(!there("own-one") || text("own-one") == std::string(5000, 'a') + "end") << at;
    EXPECT_TRUE(!there("own-two") || text("own-two") == "stored") << at;
  }
  EXPECT_GT(refused, archive.size() / 4);
}

TEST_F(Zip, EveryTruncationIsAnError) {
  const std::string archive = whole();
  for (std::size_t length = 0; length < archive.size(); ++length) {
    EXPECT_TRUE(test::error_of<FileError>([&] {
                  unpack(archive.substr(0, length));
                }).ends_with("x.zip: damaged or truncated zip archive"))
        << length;
  }
}

TEST_F(Zip, ATooLargeFileIsRefused) {
  list_.clear(), files_.clear(), count_ = 0;
  add("own-one", "abc", true);
  for (std::string* part : {&files_, &list_})
    part->replace(part->find("own-one") - (part == &list_ ? 22 : 8), 4, "\xFF\xFF\xFF\xFF");
  EXPECT_TRUE(test::error_of<FileError>([&] { unpack(whole()); }).ends_with("own-one is larger than 1 GiB"));
}

}  // namespace
}  // namespace sotto
