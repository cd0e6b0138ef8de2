#include "sotto/core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

[[noreturn]] void fail_because(const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("cannot write {}: {}", path.string(), reason));
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code error;
  const auto status = std::filesystem::status(target_, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail_because(target_, "something that is not a regular file has this name");
  }
  for (unsigned i = 0; file_ < 0; ++i) {
    temporary_ =
        folder_of(target_) / fmt::format(".{}{}{}-{}", target_.filename().string(), temporary_mark, ::getpid(), i);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) fail();  // another thread may be writing the same file
  }
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0 || ::close(std::exchange(file_, -1)) != 0) fail();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
  fsync_path(folder_of(target_));
}

void AtomicFile::fail() const { fail_because(target_, std::generic_category().message(errno)); }

}  // namespace sotto
