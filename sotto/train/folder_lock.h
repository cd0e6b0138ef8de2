#pragma once

#include <filesystem>

namespace sotto {

// The right to write in a run folder: an advisory lock on its file `.lock`, which ends with the process that holds it,
// however that ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);  // tries once; FileError when the file cannot be opened
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

}  // namespace sotto
