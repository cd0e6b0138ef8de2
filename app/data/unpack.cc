#include "app/data/unpack.h"

#include <fmt/format.h>
#include <lzma.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

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
    if (content.size() == most_unpacked) fail("its content is larger than 1 GiB");
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

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char wanted, std::byte byte) { return static_cast<std::byte>(wanted) == byte; });
}

// The program that has packed a file, by its name; empty if the name says nothing of one.
std::string_view packer_of(const std::filesystem::path& path) {
  struct Ending {
    std::string_view ending, packer;
  };
  constexpr std::array<Ending, 9> endings{{{".gz", "gzip"},
                                           {".tgz", "gzip"},
                                           {".xz", "xz"},
                                           {".txz", "xz"},
                                           {".bz2", "bzip2"},
                                           {".zst", "zstd"},
                                           {".lz4", "lz4"},
                                           {".zip", "zip"},
                                           {".7z", "7z"}}};
  const auto found = std::ranges::find(endings, path.extension().string(), &Ending::ending);
  return found == endings.end() ? "" : found->packer;
}

}  // namespace

std::vector<std::byte> read_unpacked(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = read_file(path);
  if (begins_with(bytes, "\x1F\x8B")) return gunzip(path, bytes);
  if (begins_with(bytes,
                  "\xFD"
                  "7zXZ"))
    return unxz(path, bytes);
  const std::string_view packer = packer_of(path);
  if (packer == "gzip" || packer == "xz") {
    throw FileError(
        fmt::format("{}: its name promises {} data, but its first bytes are others: it is damaged, or has a wrong name",
                    path.string(), packer));
  }
  if (!packer.empty()) {
    throw FileError(
        fmt::format("{}: {} packed it; unpack it first, as only gzip and xz are unpacked here", path.string(), packer));
  }
  return bytes;
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
