#include "sotto/train/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sotto/core/error.h"

namespace sotto {

FolderLock::FolderLock(const std::filesystem::path& folder, int (*lock)(int file, int operation)) {
  const auto path = folder / ".lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw FileError(path.string() + ": " + std::strerror(errno));
  const bool locked = lock(file_, LOCK_EX | LOCK_NB) == 0;
  held_ = locked || errno != EWOULDBLOCK;
  if (held_ && !locked) {
    doubt_ =
        path.string() + ": cannot be locked (" + std::strerror(errno) + "); see to it that no other run writes here";
  }
}

FolderLock::~FolderLock() { ::close(file_); }

}  // namespace sotto
