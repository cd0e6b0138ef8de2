#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sotto {

// A regular file that is read in pieces. FileError names it and the reason.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  std::uint64_t size() const { return size_; }  // when it was opened
  // All of `to` from that byte on. FileError when the file has become shorter.
  void read(std::uint64_t from, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace sotto
