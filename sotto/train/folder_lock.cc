#include "sotto/train/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sotto/core/error.h"

namespace sotto {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw FileError(path.string() + ": " + std::strerror(errno));
  held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
}

FolderLock::~FolderLock() { ::close(file_); }

}  // namespace sotto
