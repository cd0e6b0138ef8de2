#pragma once

#include <sys/file.h>

#include <filesystem>
#include <string>

namespace sotto {

// The right to write in a run folder: an advisory lock on its file `.lock`, which ends with the process that holds it,
// however that ends.
class FolderLock {
 public:
  // Tries once. FileError when the file cannot be opened. `lock` is flock(2).
  explicit FolderLock(const std::filesystem::path& folder, int (*lock)(int file, int operation) = ::flock);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }  // otherwise another process has it
  // Why it holds nothing off, on a file system that has no locks; empty: it does.
  const std::string& doubt() const { return doubt_; }

 private:
  int file_ = -1;
  bool held_ = false;
  std::string doubt_;
};

}  // namespace sotto
