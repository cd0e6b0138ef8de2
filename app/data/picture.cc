#include "app/data/picture.h"

#include <fmt/format.h>

#include "app/data/jpeg.h"
#include "app/data/png.h"
#include "sotto/core/error.h"

namespace sotto {

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
  if (is_jpeg(bytes)) return open_jpeg(bytes);
  if (is_png(bytes)) return open_png(bytes);
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
