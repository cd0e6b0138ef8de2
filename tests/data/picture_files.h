#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto::test {

// A picture with interleaved channels of 8 bits each.
struct Raw {
  std::size_t width, height, channels;
  std::vector<std::uint8_t> values;

  std::uint8_t at(std::size_t x, std::size_t y, std::size_t channel) const {
    return values[(y * width + x) * channels + channel];
  }
  bool operator==(const Raw&) const = default;
};

// Waves, edges and a little noise.
Raw made_picture(std::size_t width, std::size_t height, std::size_t channels = 3, unsigned seed = 1);

// How libjpeg writes a JPEG file. Channels: 1 grey, 3 YCbCr, 4 CMYK or YCCK.
struct JpegForm {
  int quality = 90;
  int across = 2, down = 2;  // chroma is stored at 1/across and 1/down
  bool progressive = false;
  int restart = 0;  // in blocks
  bool ycck = false;
  bool adobe = true;         // whether files of four channels have Adobe's mark
  unsigned orientation = 0;  // in an Exif segment; 0 for no segment
};
std::vector<std::byte> jpeg_file(const Raw& picture, const JpegForm& form = {});
// The picture as libjpeg decodes it in one go, at 1/reduction of its size: grey, red-green-blue, or CMYK as stored.
Raw decoded_jpeg(const std::vector<std::byte>& file, unsigned reduction = 1);

// The bytes of Exif data with an orientation.
std::vector<std::byte> exif_data(unsigned orientation, bool big_endian);

// A PNG file, written without libpng's high-level functions. `type` is PNG's colour type. With type 3, values are
// indices, and the palette has the colours (i, 255 - i, 7 i). With a depth of 16, the lower byte of each sample is the
// complement of the upper one.
struct PngForm {
  int depth = 8;
  int type = 2;
  bool interlaced = false;
  unsigned orientation = 0;
};
std::vector<std::byte> png_file(const Raw& picture, const PngForm& form = {});

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);

}  // namespace sotto::test
