#pragma once

#include <sys/file.h>

#include <filesystem>
#include <optional>
#include <string>

#include "sotto/core/open_file.h"

namespace sotto {

// The right to write in a run folder: an advisory lock on its file `.lock`. It ends with the process that holds it,
// however that process ends.
class FolderLock {
 public:
  // Tries to take the lock. FileError if the file cannot be opened. `lock` stands for flock(2).
  explicit FolderLock(const std::filesystem::path& folder, int (*lock)(int file, int operation) = ::flock);

  // Whether a process holds the lock of this folder; nothing if that cannot be known.
  static std::optional<bool> is_held(const std::filesystem::path& folder);

  bool held() const { return held_; }  // false: another process holds it
  // The text with which the present holder has signed the lock's file. FileError.
  std::string signature() const;
  void sign(const std::string& text);
  // Takes the lock from a holder that is known to be lost: it is stopped, or on a machine that cannot be reached. If
  // that process comes back, its lock is lost(). FileError.
  void seize();
  bool lost() const;
  // Why the lock has no effect, if the file system has no locks; empty: it has.
  const std::string& doubt() const { return doubt_; }

 private:
  std::filesystem::path path_;
  Descriptor file_;
  bool held_ = false;
  std::string doubt_;
};

}  // namespace sotto
