#include "app/train/folder/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {

namespace {

Descriptor open_file(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.open()) throw FileError(path.string() + ": " + std::strerror(errno));
  return file;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, int (*lock)(int file, int operation))
    : path_(folder / ".lock"), file_(open_file(path_, O_RDWR | O_CREAT)) {
  bool locked = lock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) {  // perhaps is_held() has it for a moment
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    locked = lock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  }
  held_ = locked || errno != EWOULDBLOCK;
  if (held_ && !locked) {
    doubt_ =
        path_.string() + ": cannot be locked (" + std::strerror(errno) + "); see to it that no other run writes here";
  }
  if (locked && lost()) held_ = false;  // another process seized it between open and lock
}

std::string FolderLock::signature() const {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(file_.get(), text.data(), text.size(), 0);
  if (size < 0) throw FileError(path_.string() + ": " + std::strerror(errno));
  return {text.data(), static_cast<std::size_t>(size)};
}

void FolderLock::sign(const std::string& text) {
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw FileError(path_.string() + ": " + std::strerror(errno));
  }
}

// The holder's lock belongs to its file, not to the name. So a new file gets the name, and this process locks it.
void FolderLock::seize() {
  const auto made = std::filesystem::path(path_) += std::string(temporary_mark) + std::to_string(::getpid());
  file_ = open_file(made, O_RDWR | O_CREAT | O_EXCL);
  held_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!held_ || ::rename(made.c_str(), path_.c_str()) != 0)
    throw FileError(path_.string() + ": " + std::strerror(errno));
}

bool FolderLock::lost() const { return is_replaced(file_.get(), path_); }

std::optional<bool> FolderLock::is_held(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return errno == ENOENT ? std::optional(false) : std::nullopt;
  const bool locked = ::flock(file.get(), LOCK_SH | LOCK_NB) == 0;
  const bool other = !locked && errno == EWOULDBLOCK;
  return locked || other ? std::optional(other) : std::nullopt;
}

}  // namespace sotto
