#include "app/data/pictures/picture.h"

// After cstdio:
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "app/data/pictures/picture.h"
#include "app/data/unpack.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr int most_scans = 50;  // of a progressive file; real ones have about ten, and each goes through all blocks

// Warnings of libjpeg that do not mean that pixels are wrong. ImageNet has a few files with such.
constexpr std::array harmless{JWRN_EXTRANEOUS_DATA, JWRN_ADOBE_XFORM, JWRN_JFIF_MAJOR, JWRN_BOGUS_PROGRESSION};

// libjpeg reports errors by calling a function that must not return: it jumps back to guarded(). The functions that
// guarded() calls keep nothing that has a destructor.
class JpegPicture final : public Picture {
 public:
  explicit JpegPicture(std::span<const std::byte> bytes) {
    file_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    file_.client_data = this;
    try {
      guarded([&] {
        jpeg_create_decompress(&file_);
        jpeg_mem_src(&file_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
        jpeg_save_markers(&file_, JPEG_APP0 + 1, 0xFFFF);
        jpeg_read_header(&file_, TRUE);
      });
      set_size(file_.image_width, file_.image_height);
    } catch (...) {
      jpeg_destroy_decompress(&file_);
      throw;
    }
    progress_.progress_monitor = on_progress;
    file_.progress = &progress_;
    read_orientation();
  }
  ~JpegPicture() override { jpeg_destroy_decompress(&file_); }
  JpegPicture(const JpegPicture&) = delete;
  JpegPicture& operator=(const JpegPicture&) = delete;

  bool reduces() const override { return true; }

  void decode(const Window& wanted, std::size_t reduction, Pixels& pixels) override {
    guarded([&] {
      start(reduction);
      crop(wanted, pixels.part);
    });
    pixels.bytes.resize(4 * pixels.part.width * pixels.part.height);
    guarded([&] {
      if (pixels.part.top > 0) jpeg_skip_scanlines(&file_, static_cast<JDIMENSION>(pixels.part.top));
      read_rows(pixels);
    });
    require_whole();
    to_rgb(pixels.bytes);
  }

  void check() override {
    Pixels row;  // at an eighth, which is quick: damage shows in entropy decoding, and little else is done
    guarded([&] { start(8); });
    row.part = {0, 0, file_.output_width, file_.output_height};
    row.bytes.resize(std::size_t{4} * file_.output_width);
    guarded([&] {
      JSAMPROW to = row.bytes.data();
      while (file_.output_scanline < file_.output_height) jpeg_read_scanlines(&file_, &to, 1);
      jpeg_finish_decompress(&file_);
    });
    require_whole();
  }

 private:
  bool has_four_channels() const { return file_.jpeg_color_space == JCS_CMYK || file_.jpeg_color_space == JCS_YCCK; }

  void start(std::size_t reduction) {
    file_.scale_num = 1;
    file_.scale_denom = static_cast<unsigned>(reduction);
    file_.out_color_space = has_four_channels() ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&file_);
  }

  // Widens the window by two pixels on each side, within the picture, because chroma is interpolated across its edges.
  // Widens it further to libjpeg's own borders. Then tells libjpeg the columns.
  void crop(const Window& wanted, Window& part) {
    const std::size_t margin = 2;
    const auto begin = [&](std::size_t at) { return at - std::min(at, margin); };
    auto left = static_cast<JDIMENSION>(begin(wanted.left));
    auto width =
        static_cast<JDIMENSION>(std::min<std::size_t>(wanted.left + wanted.width + margin, file_.output_width)) - left;
    jpeg_crop_scanline(&file_, &left, &width);
    part.left = left;
    part.width = width;
    part.top = begin(wanted.top);
    part.height = std::min<std::size_t>(wanted.top + wanted.height + margin, file_.output_height) - part.top;
  }

  void read_rows(Pixels& pixels) {
    const std::size_t row_bytes = 4 * pixels.part.width;
    for (std::size_t done = 0; done < pixels.part.height;) {
      std::array<JSAMPROW, 8> rows;
      const std::size_t count = std::min(rows.size(), pixels.part.height - done);
      for (std::size_t i = 0; i < count; ++i) rows[i] = pixels.bytes.data() + (done + i) * row_bytes;
      done += jpeg_read_scanlines(&file_, rows.data(), static_cast<JDIMENSION>(count));
    }
  }

  // Converts CMYK: the light that a colour and black let through together.
  void to_rgb(std::vector<std::uint8_t>& bytes) const {
    if (!has_four_channels()) return;
    const unsigned flip = file_.saw_Adobe_marker ? 0 : 255;
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      const unsigned black = bytes[i + 3] ^ flip;
      for (std::size_t c = 0; c < 3; ++c) {
        bytes[i + c] = static_cast<std::uint8_t>(((bytes[i + c] ^ flip) * black + 127) / 255);
      }
    }
  }

  void read_orientation() {
    constexpr std::array<std::uint8_t, 6> name{'E', 'x', 'i', 'f', 0, 0};
    for (const jpeg_marker_struct* marker = file_.marker_list; marker != nullptr; marker = marker->next) {
      const std::span data(marker->data, marker->data_length);
      if (data.size() < name.size() || !std::ranges::equal(data.first(name.size()), name)) continue;
      set_orientation(exif_orientation(std::as_bytes(data.subspan(name.size()))));
      return;
    }
  }

  void require_whole() const {
    if (is_damaged_) throw FileError(message_.data());
  }

  template <class Call>
  [[gnu::noinline]] void guarded(Call&& call) {
    if (setjmp(jump_) != 0) throw FileError(message_.data());
    call();
  }

  static JpegPicture& of(j_common_ptr file) { return *static_cast<JpegPicture*>(file->client_data); }
  static void on_error(j_common_ptr file) {
    JpegPicture& self = of(file);
    file->err->format_message(file, self.message_.data());
    std::longjmp(self.jump_, 1);
  }
  static void on_message(j_common_ptr file, int level) {
    if (level >= 0) return;  // a trace, not a warning
    JpegPicture& self = of(file);
    if (self.is_damaged_ || std::ranges::count(harmless, file->err->msg_code) > 0) return;
    file->err->format_message(file, self.message_.data());
    self.is_damaged_ = true;
  }
  static void on_progress(j_common_ptr file) {
    if (reinterpret_cast<j_decompress_ptr>(file)->input_scan_number <= most_scans) return;
    JpegPicture& self = of(file);
    std::strcpy(self.message_.data(), "more than 50 scans");
    std::longjmp(self.jump_, 1);
  }

  jpeg_decompress_struct file_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
  bool is_damaged_ = false;
};

}  // namespace

std::unique_ptr<Picture> open_jpeg(std::span<const std::byte> bytes) {
  if (!as_text(bytes).starts_with("\xFF\xD8\xFF")) return nullptr;
  return std::make_unique<JpegPicture>(bytes);
}

}  // namespace sotto
