#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto::test {

// A picture of some channels, of 8 bits each and interleaved.
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

// How a JPEG file is written, by libjpeg's plain way. Channels: 1 grey, 3 YCbCr, 4 CMYK or YCCK.
struct JpegForm {
  int quality = 90;
  int across = 2, down = 2;  // chroma is stored at 1/across and 1/down
  bool progressive = false;
  int restart = 0;  // in blocks
  bool ycck = false;
  bool adobe = true;         // its mark, in files of four channels
  unsigned orientation = 0;  // in an Exif segment; 0: there is none
};
std::vector<std::byte> jpeg_file(const Raw& picture, const JpegForm& form = {});
// What libjpeg decodes, all at once, at 1/reduction: grey, red-green-blue, or CMYK as stored.
Raw decoded_jpeg(const std::vector<std::byte>& file, unsigned reduction = 1);

// The bytes of Exif data with an orientation.
std::vector<std::byte> exif_data(unsigned orientation, bool big_endian);

// A PNG file, written without libpng's high level. `type` is PNG's colour type; of type 3, values are indices, and the
// palette has the colours (i, 255 - i, 7 i); of 16 bits, the lower byte of each sample is its complement.
struct PngForm {
  int depth = 8;
  int type = 2;
  bool interlaced = false;
  unsigned orientation = 0;
};
std::vector<std::byte> png_file(const Raw& picture, const PngForm& form = {});

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);

}  // namespace sotto::test
