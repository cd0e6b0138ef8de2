#include <gtest/gtest.h>
#include <libdeflate.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "helpers.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

using test::error_of;
using test::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(File, RoundTrip) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a", "first");
  EXPECT_EQ(read_text(folder / "a"), "first");
  write_file_atomic(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a").size(), 0U);
  std::string large(1'000'003, 'x');
  for (std::size_t i = 0; i < large.size(); i += 97) large[i] = static_cast<char>(i);
  write_file_atomic(folder / "a", bytes_of(large));
  EXPECT_EQ(read_text(folder / "a"), large);
  EXPECT_EQ(text_of(read_file(folder / "a")), large);
  EXPECT_EQ(folder.entries(), 1U) << "a temporary file is left";
}

TEST(File, ANewFileHasTheUsualMode) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  write_file_atomic(folder / "a", "x");
  struct stat info {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(File, RelativeNamesWork) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_file_atomic("plain", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_text(folder / "plain"), "x");
}

TEST(File, ReadsFilesThatDoNotSayTheirSize) { EXPECT_GT(read_text("/proc/self/status").size(), 100U); }

TEST(File, WhatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  EXPECT_EQ(error_of<FileError>([&] { read_file(missing); }), "cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(error_of<FileError>([&] { read_text(folder.path()); }),
            "cannot read " + folder.path().string() + ": not a regular file");
  error_of<FileError>([] { read_file("/dev/zero"); });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  error_of<FileError>([&] { read_file(folder / "pipe"); });  // at once, though there is no writer

  // A file that claims to be larger than any memory.
  const std::string sparse = (folder / "sparse").string();
  std::ofstream(sparse).close();
  if (::truncate(sparse.c_str(), std::int64_t{1} << 43) == 0) {
#if !SOTTO_SANITIZED
    EXPECT_EQ(error_of<FileError>([&] { read_file(sparse); }), "cannot read " + sparse + ": larger than the memory");
#endif
  }
}

TEST(File, WhatCannotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  const std::string into_missing = (folder / "no/file").string();
  EXPECT_EQ(error_of<FileError>([&] { write_file_atomic(into_missing, "x"); }),
            "cannot write " + into_missing + ": No such file or directory");

  write_file_atomic(folder / "file", "old");
  const std::string below_file = (folder / "file/below").string();
  EXPECT_EQ(error_of<FileError>([&] { write_file_atomic(below_file, "x"); }),
            "cannot write " + below_file + ": Not a directory");
  EXPECT_EQ(read_text(folder / "file"), "old");

  std::filesystem::create_directory(folder / "folder");
  error_of<FileError>([&] { write_file_atomic(folder / "folder", "x"); });
  EXPECT_TRUE(std::filesystem::is_directory(folder / "folder"));
  error_of<FileError>([] { write_file_atomic("/dev/full", "x"); });
  struct stat info {};
  EXPECT_TRUE(::stat("/dev/full", &info) != 0 || S_ISCHR(info.st_mode)) << "a device was replaced by a file";
  EXPECT_EQ(folder.entries(), 2U) << "a temporary file is left";
}

// The disk is full in the middle of a write: the old file stays, and no other file is left.
TEST(File, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a", "old");
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{10'000, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = error_of<FileError>([&] { write_file_atomic(folder / "a", std::string(100'000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "cannot write " + (folder / "a").string() + ": File too large");
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), 1U) << "a temporary file is left";
}

TEST(File, ManyWritersLeaveOneWholeFile) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c) {
    threads.emplace_back([&folder, c] {
      for (int i = 0; i < 20; ++i) write_file_atomic(folder / "f", std::string(10'000, c));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = read_text(folder / "f");
  EXPECT_EQ(text, std::string(10'000, text.at(0)));
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(File, RemoveTemporariesKeepsEverythingElse) {
  const TemporaryFolder folder;
  for (const char* name : {"model_step_1", ".model_step_2.sotto-tmp-123-0", ".hidden"}) {
    std::ofstream(folder / name) << "x";
  }
  remove_temporaries(folder.path());
  EXPECT_EQ(folder.entries(), 2U);
  EXPECT_TRUE(std::filesystem::exists(folder / "model_step_1"));
  EXPECT_TRUE(std::filesystem::exists(folder / ".hidden"));
  error_of<FileError>([&] { remove_temporaries(folder / "missing"); });
}

TEST(Folder, MadeWithItsParents) {
  const TemporaryFolder folder;
  make_folder(folder / "a/b/c");
  make_folder(folder / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  write_file_atomic(folder / "file", "x");
  error_of<FileError>([&] { make_folder(folder / "file"); });
  error_of<FileError>([&] { make_folder(folder / "file/below"); });
  error_of<FileError>([] { make_folder("/proc/no/such"); });
  EXPECT_EQ(read_text(folder / "file"), "x");
}

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(md5_hex({}), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex(bytes_of("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

std::string gzip(std::string_view text) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_gzip_compress_bound(compressor, text.size()), '\0');
  out.resize(libdeflate_gzip_compress(compressor, text.data(), text.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

TEST(Inflate, OneStream) {
  const std::string text(100'000, 'x');
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(6), libdeflate_free_compressor);
  std::string packed(libdeflate_zlib_compress_bound(compressor.get(), text.size()), '\0');
  packed.resize(libdeflate_zlib_compress(compressor.get(), text.data(), text.size(), packed.data(), packed.size()));
  EXPECT_EQ(text_of(inflate("f", bytes_of(packed))), text);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const std::string message = error_of<FileError>([&] { inflate("train.mat", bytes_of(packed.substr(0, size))); });
    EXPECT_NE(message.find("train.mat"), std::string::npos);
    EXPECT_NE(message.find("zlib"), std::string::npos);
  }
  EXPECT_NE(error_of<FileError>([&] { inflate("f", bytes_of(packed + "x")); }).find("1 bytes too many"),
            std::string::npos);
}

TEST(Gunzip, OneMemberAndSeveral) {
  const std::string text = "some text, some text, some text";
  EXPECT_EQ(text_of(gunzip("f", bytes_of(gzip(text)))), text);
  EXPECT_EQ(text_of(gunzip("f", bytes_of(gzip("")))), "");
  EXPECT_EQ(text_of(gunzip("f", bytes_of(gzip("a") + gzip("") + gzip(text)))), "a" + text);
  const std::string zeros(8'000'000, '\0');  // a thousand times as large as when packed
  EXPECT_EQ(gunzip("f", bytes_of(gzip(zeros) + gzip("end"))).size(), zeros.size() + 3);
}

TEST(Gunzip, DamageIsAnErrorThatNamesTheFile) {
  const std::string text = "some text, some text, some text";
  const std::string good = gzip(text);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::string message = error_of<FileError>([&] { gunzip("train.gz", bytes_of(good.substr(0, size))); });
    EXPECT_NE(message.find("train.gz"), std::string::npos);
    error_of<FileError>([&] { gunzip("train.gz", bytes_of(gzip("first") + good.substr(0, size > 0 ? size : 1))); });
  }
  for (const std::string& tail : {std::string("x"), std::string(100, '\0'), good.substr(0, 10)}) {
    error_of<FileError>([&] { gunzip("train.gz", bytes_of(good + tail)); });
  }
  // A flipped bit is found, unless it does not affect the content: the time in the header, or the padding of the last
  // byte.
  std::size_t seen = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_EQ(text_of(gunzip("train.gz", bytes_of(bad))), text) << "bit " << bit;
    } catch (const FileError&) {
      ++seen;
    }
  }
  EXPECT_GT(seen, 8 * (good.size() - 10) - 8);
}

TEST(Gunzip, AContentLargerThanTheLimitIsRefused) {
  const std::string member = gzip(std::string(4 << 20, '\0'));
  std::string bomb;
  for (int i = 0; i < 257; ++i) bomb += member;  // a megabyte
  EXPECT_EQ(error_of<FileError>([&] { gunzip("bomb.gz", bytes_of(bomb)); }),
            "cannot unpack bomb.gz: its content is larger than 1 GiB");
}

TEST(Gunzip, TheLimitHoldsForMembersThatAreSmallEach) {
  const std::string member = gzip(std::string(4096, '\0'));
  std::string bomb;
  for (int i = 0; i < 263'000; ++i) bomb += member;
  EXPECT_EQ(error_of<FileError>([&] { gunzip("bomb.gz", bytes_of(bomb)); }),
            "cannot unpack bomb.gz: its content is larger than 1 GiB");
}

TEST(File, WhetherItIsThere) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "x");
  EXPECT_TRUE(path_exists(folder / "file"));
  EXPECT_TRUE(path_exists(folder.path()));
  EXPECT_FALSE(path_exists(folder / "missing"));
  EXPECT_FALSE(path_exists(folder / "file/below"));
  const std::string long_name = (folder / std::string(300, 'x')).string();
  EXPECT_EQ(error_of<FileError>([&] { path_exists(long_name); }), "cannot read " + long_name + ": File name too long");
}

}  // namespace
}  // namespace sotto
