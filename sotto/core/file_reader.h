#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sotto {

// Reads a regular file in pieces. FileError names the file and the reason.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `to` with the bytes from offset `from` on. FileError when the file has become shorter.
  void read(std::uint64_t from, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace sotto
