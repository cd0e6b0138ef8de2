#include "app/data/pictures/picture.h"

#include <fmt/format.h>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::uint64_t orientation_tag = 0x0112;
constexpr std::uint64_t short_type = 3;

// Numbers of either byte order; 0 beyond the end.
struct TiffBytes {
  std::span<const std::byte> bytes;
  bool big_endian;

  std::uint64_t number(std::uint64_t offset, std::size_t size) const {
    if (offset > bytes.size() || bytes.size() - offset < size) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + (big_endian ? i : size - 1 - i)]);
    }
    return value;
  }
};

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) {
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != std::byte{'I'} && tiff[0] != std::byte{'M'})) return 1;
  const TiffBytes read{tiff, tiff[0] == std::byte{'M'}};
  if (read.number(2, 2) != 42) return 1;
  const std::uint64_t fields = read.number(4, 4);
  const std::uint64_t entries = read.number(fields, 2);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = fields + 2 + 12 * i;  // tag, type, count, value
    if (read.number(entry, 2) != orientation_tag) continue;
    const std::uint64_t value = read.number(entry + 8, 2);
    const bool sound = read.number(entry + 2, 2) == short_type && read.number(entry + 4, 4) == 1;
    return sound && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void Picture::set_size(std::size_t width, std::size_t height) {
  if (width == 0 || height == 0) throw FileError("it has no pixels");
  if (width > most_pixels / height) {
    throw FileError(fmt::format("{}x{} pixels are more than {} million", width, height, most_pixels / 1'000'000));
  }
  width_ = width;
  height_ = height;
}

std::unique_ptr<Picture> open_picture(std::span<const std::byte> bytes) {
  if (bytes.empty()) throw FileError("it is empty");
  if (auto picture = open_jpeg(bytes)) return picture;
  if (auto picture = open_png(bytes)) return picture;
  throw FileError("it is neither JPEG nor PNG");
}

std::string why_broken(std::span<const std::byte> bytes) {
  try {
    open_picture(bytes)->check();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace sotto
