#include "app/data/unpack.h"

#include <fmt/format.h>
#include <libdeflate.h>
#include <lzma.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/open_file.h"

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

// The program that the ending of a file's name stands for; empty if it stands for none.
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

std::string_view last_part(std::string_view name) { return name.substr(name.find_last_of('/') + 1); }

constexpr std::size_t tar_block = 512;

// A number in tar's form: octal digits, then spaces or zeros. Nothing if it is none.
std::optional<std::size_t> octal(std::string_view field) {
  field = field.substr(std::min(field.find_first_not_of(' '), field.size()));
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest = field.substr(static_cast<std::size_t>(end - field.data()));
  return rest.find_first_not_of(std::string_view(" \0", 2)) == std::string_view::npos ? std::optional(value)
                                                                                      : std::nullopt;
}

// The sum of a header's bytes, where the bytes of the sum itself count as spaces.
std::size_t tar_checksum(std::string_view header) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    sum += i / 4 == 37 || i / 4 == 38 ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

// Reads a zip archive, whose list of files is at its end.
class Zip {
 public:
  struct Member {
    std::string name;
    std::uint32_t method, crc, packed, size, header;  // `header`: where its own header begins
  };

  explicit Zip(const std::filesystem::path& path) : path_(path), file_(path) { read_list(); }

  const std::vector<Member>& members() const { return members_; }

  std::string content(const Member& member) const {
    constexpr std::uint32_t stored = 0, deflated = 8;
    const std::string header = read(member.header, own_header);
    require(header.starts_with("PK\x03\x04"));
    const std::uint64_t begin =
        member.header + own_header + std::uint64_t{number(header, 26, 2)} + number(header, 28, 2);
    std::string content = read(begin, member.packed);
    if (member.method == deflated) {
      if (member.size > most_unpacked) {
        throw FileError(fmt::format("cannot unpack {}: {} is larger than 1 GiB", path_.string(), member.name));
      }
      const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor(
          libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
      if (!decompressor) throw std::bad_alloc();
      std::string unpacked(member.size, '\0');
      require(libdeflate_deflate_decompress(decompressor.get(), content.data(), content.size(), unpacked.data(),
                                            unpacked.size(), nullptr) == LIBDEFLATE_SUCCESS);
      content = std::move(unpacked);
    } else {
      require(member.method == stored && member.size == member.packed);
    }
    require(libdeflate_crc32(0, content.data(), content.size()) == member.crc);
    return content;
  }

 private:
  static constexpr std::size_t end_record = 22, list_record = 46, own_header = 30;

  void read_list() {
    const std::uint64_t tail = std::min<std::uint64_t>(file_.size(), end_record + 65535);  // a comment may follow
    const std::string last = read(file_.size() - tail, tail);
    constexpr std::string_view mark = "PK\x05\x06";  // the comment may contain this mark, too
    std::size_t end = last.rfind(mark);
    while (end != std::string::npos && end > 0 && !ends_at(last, end)) end = last.rfind(mark, end - 1);
    require(end != std::string::npos && ends_at(last, end));
    const std::uint32_t count = number(last, end + 10, 2);
    const std::string list = read(number(last, end + 16, 4), number(last, end + 12, 4));
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      require(list.size() - at >= list_record && list.compare(at, 4, "PK\x01\x02") == 0);
      const std::size_t name = number(list, at + 28, 2);
      const std::size_t more = std::size_t{number(list, at + 30, 2)} + number(list, at + 32, 2);
      require(list.size() - at - list_record >= name + more);
      members_.push_back({list.substr(at + list_record, name), number(list, at + 10, 2), number(list, at + 16, 4),
                          number(list, at + 20, 4), number(list, at + 24, 4), number(list, at + 42, 4)});
      at += list_record + name + more;
    }
  }
  void require(bool right) const {
    if (!right) throw FileError(fmt::format("cannot unpack {}: damaged or truncated zip archive", path_.string()));
  }
  std::string read(std::uint64_t from, std::uint64_t count) const {
    require(from <= file_.size() && count <= file_.size() - from);
    std::string bytes(count, '\0');
    file_.read(from, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  // The little-endian number of `bytes` bytes at `at`.
  static std::uint32_t number(std::string_view in, std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(in[at + i]);
    return value;
  }

  // Whether the last record of a file begins at `at`: its comment must be the rest of `last`.
  static bool ends_at(std::string_view last, std::size_t at) {
    return last.size() - at >= end_record && last.size() - at - end_record == number(last, at + 20, 2);
  }

  std::filesystem::path path_;
  FileReader file_;
  std::vector<Member> members_;
};

}  // namespace

std::vector<std::byte> read_unpacked(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = read_file(path);
  if (as_text(bytes).starts_with("\x1F\x8B")) return gunzip(path, bytes);
  if (as_text(bytes).starts_with("\xFD"
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

std::filesystem::path require_packed(const std::filesystem::path& path) {
  std::filesystem::path found = find_packed(path);
  if (found.empty()) throw FileError(path.string() + ": there is no such file, also not as .gz or .xz");
  return found;
}

void unpack_tar(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder) {
  const std::vector<std::byte> bytes = read_unpacked(archive);
  const std::string_view all = as_text(bytes);
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
    const std::string_view last = last_part(name);
    if (is_file && wanted(last)) write_file_atomic(folder / last, all.substr(at, *size));
    at += std::min(all.size() - at, (*size + tar_block - 1) / tar_block * tar_block);
  }
  require(at + tar_block <= all.size());  // an empty block ends an archive
}

void unpack_zip(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder) {
  const Zip zip(archive);
  for (const Zip::Member& member : zip.members()) {
    const std::string_view name = last_part(member.name);
    if (!name.empty() && wanted(name)) write_file_atomic(folder / name, zip.content(member));
  }
}

}  // namespace sotto
