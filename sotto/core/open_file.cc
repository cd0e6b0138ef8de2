#include "sotto/core/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

[[noreturn]] void fail_to_read(const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("cannot read {}: {}", path.string(), reason));
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("cannot write {}: {}", path.string(), reason));
}

std::string last_error() { return std::generic_category().message(errno); }

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

Descriptor open_regular(const std::filesystem::path& path, std::uint64_t& size) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // must not wait for the writer of a pipe
  struct stat info {};
  if (!file.open() || ::fstat(file.get(), &info) != 0) fail_to_read(path, last_error());
  if (!S_ISREG(info.st_mode)) fail_to_read(path, "not a regular file");
  size = static_cast<std::uint64_t>(info.st_size);
  return file;
}

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)), file_(open_regular(path_, size_)) {}

void FileReader::read(std::uint64_t from, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(from));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(path_, last_error());
    if (count == 0) fail_to_read(path_, "it has become shorter");
    from += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code error;
  const auto status = std::filesystem::status(target_, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail_to_write(target_, "something that is not a regular file has this name");
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

void AtomicFile::fail() const { fail_to_write(target_, last_error()); }

}  // namespace sotto
