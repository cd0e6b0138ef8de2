#include "sotto/core/file_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("cannot read {}: {}", path.string(), reason));
}

std::string last_error() { return std::generic_category().message(errno); }

int open(const std::filesystem::path& path) {
  const int file =
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // opening a pipe must not wait for its writer
  if (file < 0) fail(path, last_error());
  return file;
}

}  // namespace

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)), file_(open(path_)) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) fail(path_, last_error());
  if (!S_ISREG(info.st_mode)) fail(path_, "not a regular file");
  size_ = static_cast<std::uint64_t>(info.st_size);
}

void FileReader::read(std::uint64_t from, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(from));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, last_error());
    if (count == 0) fail(path_, "it has become shorter");
    from += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace sotto
