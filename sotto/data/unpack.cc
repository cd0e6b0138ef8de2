#include "sotto/data/unpack.h"

#include <fmt/format.h>
#include <lzma.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::size_t most_unpacked = std::size_t{256} << 20;  // as that of gunzip()

std::vector<std::byte> unxz(const std::filesystem::path& path, std::span<const std::byte> packed) {
  const auto fail = [&](std::string_view why) {
    throw FileError(fmt::format("cannot unpack {}: {}", path.string(), why));
  };
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, std::uint64_t{1} << 30, LZMA_CONCATENATED) != LZMA_OK) throw std::bad_alloc();
  const std::unique_ptr<lzma_stream, decltype(&lzma_end)> end(&stream, &lzma_end);
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::vector<std::byte> content;
  for (lzma_ret result = LZMA_OK; result != LZMA_STREAM_END;) {
    if (content.size() == most_unpacked) fail("its content is larger than 256 MiB");
    const std::size_t used = content.size();
    content.resize(std::min(most_unpacked, std::max(2 * used, 4 * packed.size())));
    stream.next_out = reinterpret_cast<std::uint8_t*>(content.data() + used);
    stream.avail_out = content.size() - used;
    result = lzma_code(&stream, LZMA_FINISH);
    if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
    if (result != LZMA_OK && result != LZMA_STREAM_END) fail("damaged or truncated xz data");
  }
  content.resize(content.size() - stream.avail_out);
  return content;
}

constexpr std::size_t tar_block = 512;

// A number as tar has it: octal digits, then spaces or zeros. Nothing if it is none.
std::optional<std::size_t> octal(std::string_view field) {
  field = field.substr(std::min(field.find_first_not_of(' '), field.size()));
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest = field.substr(static_cast<std::size_t>(end - field.data()));
  return rest.find_first_not_of(std::string_view(" \0", 2)) == std::string_view::npos ? std::optional(value)
                                                                                      : std::nullopt;
}

// The sum of a header's bytes, those of the sum itself taken for spaces.
std::size_t tar_checksum(std::string_view header) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    sum += i / 4 == 37 || i / 4 == 38 ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char wanted, std::byte byte) { return static_cast<std::byte>(wanted) == byte; });
}

}  // namespace

std::vector<std::byte> read_unpacked(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = read_file(path);
  if (begins_with(bytes, "\x1F\x8B")) return gunzip(path, bytes);
  if (begins_with(bytes,
                  "\xFD"
                  "7zXZ"))
    return unxz(path, bytes);
  return bytes;
}

void unpack_tar(const std::filesystem::path& archive, std::string_view ending, const std::filesystem::path& folder) {
  const std::vector<std::byte> bytes = read_unpacked(archive);
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto require = [&](bool right) {
    if (!right) throw FileError(fmt::format("cannot unpack {}: damaged or truncated tar archive", archive.string()));
  };
  std::size_t at = 0;
  while (at + tar_block <= all.size() && all[at] != '\0') {
    const std::string_view header = all.substr(at, tar_block);
    at += tar_block;
    require(octal(header.substr(148, 8)) == tar_checksum(header));
    const auto size = octal(header.substr(124, 12));
    require(size && *size <= all.size() - at);
    const std::string_view name = header.substr(0, std::min<std::size_t>(header.find('\0'), 100));
    const bool is_file = header[156] == '0' || header[156] == '\0';
    if (is_file && name.ends_with(ending)) {
      write_file_atomic(folder / name.substr(name.find_last_of('/') + 1), all.substr(at, *size));
    }
    at += std::min(all.size() - at, (*size + tar_block - 1) / tar_block * tar_block);
  }
  require(at + tar_block <= all.size());  // an empty block ends an archive
}

std::filesystem::path find_packed(const std::filesystem::path& path) {
  for (const std::string_view ending : {"", ".gz", ".xz"}) {
    std::filesystem::path file = path;
    file += ending;
    std::error_code unknown;
    if (std::filesystem::is_regular_file(file, unknown)) return file;
  }
  return {};
}

}  // namespace sotto
