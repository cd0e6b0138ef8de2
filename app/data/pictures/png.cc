#include "app/data/pictures/picture.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>

#include "app/data/pictures/picture.h"
#include "app/data/unpack.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// libpng reports errors by a longjmp back to guarded(). The functions that guarded() calls keep nothing that has a
// destructor.
class PngPicture final : public Picture {
 public:
  explicit PngPicture(std::span<const std::byte> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw FileError("no memory to read it");
    }
    try {
      guarded([this] { read_header(); });
      set_size(png_get_image_width(png_, info_), png_get_image_height(png_, info_));
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
    png_uint_32 length = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &length, &exif) != 0) {
      set_orientation(exif_orientation(std::as_bytes(std::span(exif, length))));
    }
  }
  ~PngPicture() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngPicture(const PngPicture&) = delete;
  PngPicture& operator=(const PngPicture&) = delete;

  bool reduces() const override { return false; }

  void decode(const Window& /*wanted*/, std::size_t /*reduction*/, Pixels& pixels) override {
    pixels.part = {0, 0, width(), height()};
    pixels.bytes.resize(4 * width() * height());
    guarded([&] {
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      for (int pass = 0; pass < passes; ++pass) {
        for (std::size_t y = 0; y < height(); ++y) png_read_row(png_, pixels.bytes.data() + 4 * width() * y, nullptr);
      }
    });
  }

  void check() override {
    Pixels pixels;
    decode({}, 1, pixels);
    guarded([this] { png_read_end(png_, nullptr); });
  }

 private:
  void read_header() {
    png_set_user_limits(png_, most_pixels, most_pixels);
    png_set_chunk_malloc_max(png_, 64U << 20U);
    // Only pixels and the orientation are wanted, and a text may unpack to a thousand times its size.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_palette_to_rgb(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    png_set_filler(png_, 0xFF, PNG_FILLER_AFTER);
  }

  template <class Call>
  [[gnu::noinline]] void guarded(Call&& call) {
    if (setjmp(png_jmpbuf(png_)) != 0) throw FileError(message_.data());
    call();
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto& message = static_cast<PngPicture*>(png_get_error_ptr(png))->message_;
    std::strncpy(message.data(), text, message.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto& left = static_cast<PngPicture*>(png_get_io_ptr(png))->left_;
    if (count > left.size()) png_error(png, "truncated");
    std::memcpy(to, left.data(), count);
    left = left.subspan(count);
  }

  std::span<const std::byte> left_;  // to be read
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::array<char, 200> message_{};
};

}  // namespace

std::unique_ptr<Picture> open_png(std::span<const std::byte> bytes) {
  if (!as_text(bytes).starts_with("\x89PNG\r\n\x1A\n")) return nullptr;
  return std::make_unique<PngPicture>(bytes);
}

}  // namespace sotto
