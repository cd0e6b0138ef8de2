#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace sotto {

// Owns a file descriptor, and closes it when destroyed.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Opens a regular file for reading, and sets `size` to the size that the file reports. FileError names the file and the
// reason.
Descriptor open_regular(const std::filesystem::path& path, std::uint64_t& size);

// Reads a regular file in pieces. FileError names the file and the reason.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `to` with the bytes from offset `from` on. FileError when the file has become shorter.
  void read(std::uint64_t from, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  Descriptor file_;
};

// A file that appears complete or not at all: it is written under a temporary name in the same folder, flushed to the
// disk (fsync of file and folder), then renamed. After a crash, the old file or the whole new file is there.
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
