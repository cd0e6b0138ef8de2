#include "sotto/train/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "sotto/core/error.h"

namespace sotto {

FolderLock::FolderLock(const std::filesystem::path& folder, int (*lock)(int file, int operation)) {
  const auto path = folder / ".lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw FileError(path.string() + ": " + std::strerror(errno));
  bool locked = lock(file_, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) {  // perhaps is_held() has it for a moment
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    locked = lock(file_, LOCK_EX | LOCK_NB) == 0;
  }
  held_ = locked || errno != EWOULDBLOCK;
  if (held_ && !locked) {
    doubt_ =
        path.string() + ": cannot be locked (" + std::strerror(errno) + "); see to it that no other run writes here";
  }
}

std::optional<bool> FolderLock::is_held(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? std::optional(false) : std::nullopt;
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) == 0;
  const bool other = !locked && errno == EWOULDBLOCK;
  ::close(file);
  return locked || other ? std::optional(other) : std::nullopt;
}

FolderLock::~FolderLock() { ::close(file_); }

}  // namespace sotto
