#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sotto/core/descriptor.h"

namespace sotto {

// Reads a regular file in pieces. FileError names the file and the reason.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `to` with the bytes from offset `from` on. FileError when the file has become shorter.
  void read(std::uint64_t from, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace sotto
