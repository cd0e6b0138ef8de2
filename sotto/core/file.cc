#include "sotto/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/open_file.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

[[noreturn]] void fail(std::string_view doing, const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("cannot {} {}: {}", doing, path.string(), reason));
}

[[noreturn]] void fail_errno(std::string_view doing, const std::filesystem::path& path) {
  fail(doing, path, std::generic_category().message(errno));
}

// Reads to the end of the file, whatever size it reports: files under /proc report 0. Content: a vector of bytes or a
// string.
template <class Content>
Content read_all(const std::filesystem::path& path) try {
  std::uint64_t size = 0;
  const Descriptor file = open_regular(path, size);
  Content content;
  content.resize(size + 1);  // one byte more, to detect the end
  std::size_t used = 0;
  for (;;) {
    const ssize_t count = ::read(file.get(), content.data() + used, content.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("read", path);
    used += static_cast<std::size_t>(count);
    if (count == 0) break;
    if (used == content.size()) content.resize(used + 4096);
  }
  content.resize(used);
  return content;
} catch (const std::bad_alloc&) {
  fail("read", path, "larger than the memory");
} catch (const std::length_error&) {
  fail("read", path, "larger than the memory");
}

std::string digest_hex(std::span<const std::byte> bytes, const EVP_MD* type) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, type, nullptr) != 1) {
    throw std::runtime_error("OpenSSL refuses to compute a digest");
  }
  return hex_text(std::as_bytes(std::span(digest).first(size)));
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path) { return read_all<std::vector<std::byte>>(path); }
std::string read_text(const std::filesystem::path& path) { return read_all<std::string>(path); }

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) fail("read", path, error.message());
  return exists;
}

bool is_replaced(int file, const std::filesystem::path& path) {
  struct stat ours {
  }, there{};
  if (::fstat(file, &ours) != 0 || ::stat(path.c_str(), &there) != 0) return false;
  return ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomic(const std::filesystem::path& path, std::string_view text) {
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

void append_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  if (!(file << text << std::flush)) fail_errno("write", path);
}

void remove_temporaries(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') || name.find(temporary_mark) == std::string::npos) continue;
    if (::unlink(entry->path().c_str()) != 0 && errno != ENOENT) fail_errno("remove", entry->path());
  }
  if (error) fail("list", folder, error.message());
}

void fsync_path(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) fail_errno("flush", path);
  // EINVAL: this file system cannot flush folders.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_errno("flush", path);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("make folder", path, error.message());
  if (!std::filesystem::is_directory(path, error)) fail("make folder", path, "a file has this name");
  if (::access(path.c_str(), W_OK | X_OK) != 0) fail_errno("write into folder", path);
}

void require_possible_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path nearest = std::filesystem::absolute(path);  // later its nearest parent that exists
  while (!std::filesystem::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  if (!std::filesystem::is_directory(nearest, error)) fail("make folder", path, nearest.string() + " is a file");
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) fail_errno("write into folder", nearest);
}

std::string md5_hex(std::span<const std::byte> bytes) { return digest_hex(bytes, EVP_md5()); }
std::string sha256_hex(std::span<const std::byte> bytes) { return digest_hex(bytes, EVP_sha256()); }

namespace {

// Unpacks one stream or, if `several`, all consecutive streams. `unpack` is the function of libdeflate for one stream.
template <class Unpack>
std::vector<std::byte> unpacked(const std::filesystem::path& path, std::span<const std::byte> bytes, Unpack unpack,
                                std::string_view kind, bool several) {
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!decompressor) throw std::bad_alloc();

  std::vector<std::byte> content;
  std::size_t used = 0;
  std::span<const std::byte> rest = bytes;
  do {
    std::size_t read = 0;
    std::size_t written = 0;
    std::size_t room = std::min(most_unpacked - used, 4 * rest.size() + 4096);
    for (;;) {
      content.resize(used + room);
      const auto result =
          unpack(decompressor.get(), rest.data(), rest.size(), content.data() + used, room, &read, &written);
      if (result == LIBDEFLATE_SUCCESS) break;
      if (result != LIBDEFLATE_INSUFFICIENT_SPACE) {
        fail("unpack", path,
             fmt::format("damaged or truncated {} data in the {} bytes from byte {} on", kind, rest.size(),
                         bytes.size() - rest.size()));
      }
      if (room >= most_unpacked - used) fail("unpack", path, "its content is larger than 1 GiB");
      room = std::min(most_unpacked - used, 2 * room);
    }
    used += written;
    rest = rest.subspan(read);
  } while (!rest.empty() && several);
  if (!rest.empty()) fail("unpack", path, fmt::format("{} bytes too many after {} data", rest.size(), kind));
  content.resize(used);
  return content;
}

}  // namespace

std::vector<std::byte> gunzip(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return unpacked(path, bytes, libdeflate_gzip_decompress_ex, "gzip", true);
}

std::vector<std::byte> inflate(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return unpacked(path, bytes, libdeflate_zlib_decompress_ex, "zlib", false);
}

}  // namespace sotto
