#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace sotto {

// A file that appears complete or not at all: it is written under a temporary name in the same folder, flushed to the
// disk (fsync of file and folder), then renamed. After a crash there is the old file or the new one, never a part.
class AtomicFile {
 public:
  // FileError when the folder cannot be written to, or something other than a regular file has this name.
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();  // removes the temporary file, unless commit() was called
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. FileError: the disk is full.
  void write(std::span<const std::byte> bytes);
  // Flushes the file and gives it its name.
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path target_, temporary_;
  int file_ = -1;
};

}  // namespace sotto
