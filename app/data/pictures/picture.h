#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sotto {

// A rectangle of pixels.
struct Window {
  std::size_t left, top, width, height;
};

// Decoded pixels of four bytes: red, green, blue, and an unused one. `part` is the window that they fill in the
// picture.
struct Pixels {
  std::vector<std::uint8_t> bytes;
  Window part{};
};

// Frees a buffer that a huge picture made large; smaller buffers are kept for the next picture.
template <class T>
void keep_small(std::vector<T>& buffer) {
  constexpr std::size_t most = std::size_t{1} << 24;
  if (buffer.capacity() * sizeof(T) > most) std::vector<T>().swap(buffer);
}

// A picture file in memory whose header has been read. Its errors are FileErrors that say what is wrong, but not where:
// the caller knows the file's name.
class Picture {
 public:
  static constexpr std::size_t most_pixels = 100'000'000;

  virtual ~Picture() = default;

  // The size as stored, before `orientation` is applied.
  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }
  int orientation() const { return orientation_; }  // 1 to 8, as in Exif

  // The side of a picture that is decoded at 1/reduction.
  static std::size_t reduced(std::size_t side, std::size_t reduction) { return (side + reduction - 1) / reduction; }
  // Whether decode() can reduce the picture, by 2, 4 or 8.
  virtual bool reduces() const = 0;
  // Decodes at least `wanted`, which is a window of the picture at 1/reduction, as stored. May be called once. Damage
  // outside of the window is not always found.
  virtual void decode(const Window& wanted, std::size_t reduction, Pixels& pixels) = 0;
  // Decodes the whole picture. Throws if a part is missing or damaged, as far as the format shows that. May be called
  // once, instead of decode().
  virtual void check() = 0;

 protected:
  // FileError for sides that no picture has, or too many pixels.
  void set_size(std::size_t width, std::size_t height);
  void set_orientation(int orientation) { orientation_ = orientation; }

 private:
  std::size_t width_ = 0, height_ = 0;
  int orientation_ = 1;
};

// A JPEG or PNG file, told apart by its first bytes, which must outlive the result. FileError when it is neither, or
// its header is damaged.
std::unique_ptr<Picture> open_picture(std::span<const std::byte> bytes);

// Why Picture::check() fails on a picture; empty if it succeeds.
std::string why_broken(std::span<const std::byte> bytes);

// A JPEG file, by libjpeg-turbo: baseline or progressive, grey, YCbCr, RGB, CMYK or YCCK. Four-channel files with
// Adobe's mark hold inverted values, as in Pillow. At full size the pixels have the bits of libjpeg-turbo's slow, exact
// transform, and do not depend on the decoded window. Null for a file that does not begin as JPEG.
std::unique_ptr<Picture> open_jpeg(std::span<const std::byte> bytes);

// A PNG file, by libpng, of any colour type, depth and interlacing. If samples have 16 bits, the upper 8 are used.
// Transparency is ignored: a pixel has its stored colour. Null for a file that does not begin as PNG.
std::unique_ptr<Picture> open_png(std::span<const std::byte> bytes);

// The orientation, 1 to 8, in the first directory of Exif data (a TIFF file without an image); 1 if there is none, or
// if the data are damaged.
int exif_orientation(std::span<const std::byte> tiff);

}  // namespace sotto
