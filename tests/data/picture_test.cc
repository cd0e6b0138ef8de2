// JPEG and PNG files of every form, made here, whole and damaged.
#include "app/data/pictures/picture.h"

#include <string>
#include <vector>

#include "app/data/pictures/picture.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/core/helpers.h"
#include "tests/data/picture_files.h"

namespace sotto {
namespace {

using test::error_of;
using test::JpegForm;
using test::PngForm;
using test::Raw;

std::vector<JpegForm> jpeg_forms() {
  std::vector<JpegForm> forms;
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    for (const bool progressive : {false, true}) {
      forms.push_back({.across = across, .down = down, .progressive = progressive});
      forms.push_back({.quality = 40, .across = across, .down = down, .progressive = progressive, .restart = 3});
    }
  }
  return forms;
}

// Compares the pixels of a window with a picture that was decoded as a whole.
void expect_part(const Pixels& pixels, const Raw& whole, const Window& wanted) {
  const Window& part = pixels.part;
  ASSERT_LE(part.left, wanted.left);
  ASSERT_LE(part.top, wanted.top);
  ASSERT_GE(part.left + part.width, wanted.left + wanted.width);
  ASSERT_GE(part.top + part.height, wanted.top + wanted.height);
  ASSERT_GE(pixels.bytes.size(), 4 * part.width * part.height);
  for (std::size_t y = wanted.top; y < wanted.top + wanted.height; ++y) {
    for (std::size_t x = wanted.left; x < wanted.left + wanted.width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = 4 * ((y - part.top) * part.width + x - part.left) + c;
        ASSERT_EQ(int{pixels.bytes[at]}, int{whole.at(x, y, whole.channels == 1 ? 0 : c)}) << x << ' ' << y << ' ' << c;
      }
    }
  }
}

TEST(Jpeg, EveryWindowHasThePixelsOfTheWhole) {
  Philox random(1, Purpose::test);
  for (const std::size_t channels : {3U, 1U}) {
    const Raw picture = test::made_picture(157, 93, channels);
    for (const JpegForm& form : jpeg_forms()) {
      const std::vector<std::byte> file = test::jpeg_file(picture, form);
      for (const unsigned reduction : {1U, 2U, 4U, 8U}) {
        SCOPED_TRACE(std::to_string(form.across) + "x" + std::to_string(form.down) +
                     (form.progressive ? " progressive" : "") + ", 1/" + std::to_string(reduction));
        const Raw whole = test::decoded_jpeg(file, reduction);
        ASSERT_EQ(whole.width, Picture::reduced(157, reduction));
        ASSERT_EQ(whole.height, Picture::reduced(93, reduction));
        for (int i = 0; i < 8; ++i) {
          const std::size_t width = 1 + random.below(static_cast<std::uint32_t>(whole.width));
          const std::size_t height = 1 + random.below(static_cast<std::uint32_t>(whole.height));
          const Window wanted{random.below(static_cast<std::uint32_t>(whole.width - width + 1)),
                              random.below(static_cast<std::uint32_t>(whole.height - height + 1)), width, height};
          const auto opened = open_picture(file);
          EXPECT_EQ(opened->width(), 157U);
          EXPECT_EQ(opened->height(), 93U);
          Pixels pixels;
          opened->decode(wanted, reduction, pixels);
          expect_part(pixels, whole, wanted);
        }
        open_picture(file)->check();
      }
    }
  }
}

TEST(Jpeg, FourChannelsBecomeTheLightThatIsLeft) {
  Raw picture = test::made_picture(40, 30, 4);
  for (const JpegForm form : {JpegForm{.adobe = true}, {.adobe = false}, {.progressive = true, .ycck = true}}) {
    const std::vector<std::byte> file = test::jpeg_file(picture, form);
    const Raw stored = test::decoded_jpeg(file);
    ASSERT_EQ(stored.channels, 4U);
    Pixels pixels;
    const auto opened = open_picture(file);
    opened->decode({0, 0, 40, 30}, 1, pixels);
    for (std::size_t i = 0; i < 40 * 30; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        // Adobe's files hold 255 - ink.
        const double light = form.adobe ? stored.values[4 * i + c] : 255 - stored.values[4 * i + c];
        const double black = form.adobe ? stored.values[4 * i + 3] : 255 - stored.values[4 * i + 3];
        ASSERT_NEAR(pixels.bytes[4 * i + c], light * black / 255, 0.5001);
      }
    }
  }
}

TEST(Jpeg, OrientationIsRead) {
  const Raw picture = test::made_picture(20, 10);
  EXPECT_EQ(open_picture(test::jpeg_file(picture))->orientation(), 1);
  for (unsigned orientation = 1; orientation <= 8; ++orientation) {
    const auto opened = open_picture(test::jpeg_file(picture, {.orientation = orientation}));
    EXPECT_EQ(opened->orientation(), static_cast<int>(orientation));
    EXPECT_EQ(open_picture(test::png_file(picture, {.orientation = orientation}))->orientation(),
              static_cast<int>(orientation));
  }
}

TEST(Exif, DamagedDataHaveNoOrientationOrOne) {
  for (const bool big : {false, true}) {
    const std::vector<std::byte> whole = test::exif_data(6, big);
    EXPECT_EQ(exif_orientation(whole), 6);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const int cut = exif_orientation(std::span(whole).first(n));
      EXPECT_TRUE(cut == 1 || cut == 6) << n;
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::vector<std::byte> damaged = whole;
        damaged[n] ^= std::byte{1} << bit;
        const int orientation = exif_orientation(damaged);
        EXPECT_TRUE(orientation >= 1 && orientation <= 8);
      }
    }
    for (const unsigned wrong : {0U, 9U, 65535U}) EXPECT_EQ(exif_orientation(test::exif_data(wrong, big)), 1);
  }
}

TEST(Png, EveryTypeAndDepth) {
  const std::vector<std::pair<int, std::size_t>> types{{0, 1}, {2, 3}, {3, 1}, {4, 2}, {6, 4}};
  for (const auto& [type, channels] : types) {
    for (const int depth : {1, 2, 4, 8, 16}) {
      if (depth < 8 ? type != 0 && type != 3 : depth == 16 && type == 3) continue;
      Raw picture = test::made_picture(33, 21, channels);
      const int most = depth < 8 ? (1 << depth) - 1 : 255;
      if (depth < 8) {
        for (std::uint8_t& value : picture.values) value = static_cast<std::uint8_t>(value & most);
      }
      for (const bool interlaced : {false, true}) {
        SCOPED_TRACE("type " + std::to_string(type) + ", " + std::to_string(depth) + " bits");
        const std::vector<std::byte> file = test::png_file(picture, {depth, type, interlaced});
        open_picture(file)->check();
        Pixels pixels;
        open_picture(file)->decode({3, 4, 10, 10}, 1, pixels);
        ASSERT_EQ(pixels.part.width, 33U);
        ASSERT_EQ(pixels.part.height, 21U);
        for (std::size_t i = 0; i < 33 * 21; ++i) {
          for (std::size_t c = 0; c < 3; ++c) {
            const int value = picture.values[i * channels + (channels >= 3 ? c : 0)];
            const std::array<int, 3> colour{value, 255 - value, 7 * value % 256};
            ASSERT_EQ(int{pixels.bytes[4 * i + c]}, type == 3 ? colour[c] : value * (255 / most));
          }
        }
      }
    }
  }
}

void expect_damage(const std::vector<std::byte>& bytes) {
  EXPECT_FALSE(error_of<FileError>([&] { open_picture(bytes)->check(); }).empty());
}

TEST(Picture, EveryTruncationIsFound) {
  const Raw picture = test::made_picture(60, 50);
  for (const auto& file : {test::jpeg_file(picture), test::jpeg_file(picture, {.progressive = true}),
                           test::jpeg_file(picture, {.restart = 2}), test::png_file(picture)}) {
    open_picture(file)->check();
    for (std::size_t n = 0; n < file.size(); ++n) {
      SCOPED_TRACE(n);
      expect_damage({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)});
    }
  }
}

// Many flipped bits of a JPEG file cannot be found, but none may do harm.
TEST(Picture, FlippedBitsAreAnErrorOrOtherPixels) {
  const Raw picture = test::made_picture(40, 30);
  const Raw cmyk = test::made_picture(40, 30, 4);
  for (const auto& file :
       {test::jpeg_file(picture, {.orientation = 6}), test::jpeg_file(picture, {.progressive = true}),
        test::jpeg_file(cmyk, {.ycck = true}), test::png_file(picture, {.orientation = 3}),
        test::png_file(test::made_picture(40, 30, 1), {.depth = 8, .type = 3, .interlaced = true})}) {
    std::size_t found = 0;
    for (std::size_t n = 0; n < file.size(); ++n) {
      for (const std::size_t bit : {n % 8}) {
        std::vector<std::byte> damaged = file;
        damaged[n] ^= std::byte{1} << bit;
        try {
          open_picture(damaged)->check();
          Pixels pixels;
          const auto opened = open_picture(damaged);
          opened->decode({0, 0, opened->width(), opened->height()}, 1, pixels);
        } catch (const FileError&) {
          ++found;
        }
      }
    }
    EXPECT_GT(found, file.size() / 20);
  }
}

TEST(Picture, WhatIsNoPictureIsSaidSo) {
  const auto problem = [](const std::string& text) {
    std::vector<std::byte> bytes;
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
    return error_of<FileError>([&] { open_picture(bytes); });
  };
  EXPECT_EQ(problem(""), "it is empty");
  EXPECT_EQ(problem("<html>not found</html>"), "it is neither JPEG nor PNG");
  EXPECT_EQ(problem("\xFF\xD8"), "it is neither JPEG nor PNG");
}

TEST(Picture, HugeSidesAreRefusedBeforeTheyAreDecoded) {
  std::vector<std::byte> png = test::png_file(test::made_picture(8, 8));
  std::vector<std::byte> jpeg = test::jpeg_file(test::made_picture(8, 8));
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {  // the sides follow FF C0, two bytes of length and one of depth
    if (jpeg[i] != std::byte{0xFF} || jpeg[i + 1] != std::byte{0xC0}) continue;
    std::fill_n(jpeg.begin() + static_cast<std::ptrdiff_t>(i) + 5, 4, std::byte{0xF0});
    break;
  }
  EXPECT_NE(error_of<FileError>([&] { open_picture(jpeg); }).find("61680x61680 pixels are more than 100 million"),
            std::string::npos);
  png[16] = std::byte{0x7F};  // a huge width; the checksum is wrong now, too
  expect_damage(png);
}

TEST(Picture, ThousandsOfScansAreRefused) {
  const std::vector<std::byte> file = test::jpeg_file(test::made_picture(16, 16), {.progressive = true});
  std::size_t last = 0;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xFF} && file[i + 1] == std::byte{0xDA}) last = i;
  }
  const auto at = [&](std::size_t i) { return file.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<std::byte> long_file(file.begin(), at(last));
  for (int i = 0; i < 3000; ++i) long_file.insert(long_file.end(), at(last), at(file.size() - 2));
  long_file.insert(long_file.end(), file.end() - 2, file.end());
  EXPECT_EQ(error_of<FileError>([&] { open_picture(long_file)->check(); }), "more than 50 scans");
}

}  // namespace
}  // namespace sotto
