#include "tests/data/picture_files.h"

#include <cstdio>
// After cstdio:
#include <jpeglib.h>
#include <png.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "sotto/core/random.h"

namespace sotto::test {

Raw made_picture(std::size_t width, std::size_t height, std::size_t channels, unsigned seed) {
  Raw raw{width, height, channels, std::vector<std::uint8_t>(width * height * channels)};
  Philox random(seed, Purpose::test);
  const double slope = random.uniform() * 0.2 + 0.05;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        const double wave = 60 * std::sin(slope * static_cast<double>(x * (c + 1) + 2 * y));
        const double edge = (x / 17 + y / 11) % 2 == c % 2 ? 50 : -20;
        const double value = 120 + wave + edge + 20 * (random.uniform() - 0.5);
        raw.values[(y * width + x) * channels + c] = static_cast<std::uint8_t>(std::min(255.0, std::max(0.0, value)));
      }
    }
  }
  return raw;
}

std::vector<std::byte> exif_data(unsigned orientation, bool big_endian) {
  std::vector<std::byte> bytes;
  const auto put = [&](unsigned value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? size - 1 - i : i)));
    }
  };
  bytes.assign(2, big_endian ? std::byte{'M'} : std::byte{'I'});
  put(42, 2);
  put(8, 4);
  put(2, 2);                                        // entries
  put(0x0110, 2), put(2, 2), put(4, 4), put(0, 4);  // an empty camera model
  put(0x0112, 2), put(3, 2), put(1, 4);             // the orientation
  put(orientation, 2), put(0, 2);
  put(0, 4);
  return bytes;
}

std::vector<std::byte> jpeg_file(const Raw& picture, const JpegForm& form) {
  jpeg_compress_struct file{};
  jpeg_error_mgr errors{};
  file.err = jpeg_std_error(&errors);  // its error handler ends the program
  jpeg_create_compress(&file);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&file, &memory, &size);
  file.image_width = static_cast<JDIMENSION>(picture.width);
  file.image_height = static_cast<JDIMENSION>(picture.height);
  file.input_components = static_cast<int>(picture.channels);
  file.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : picture.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&file);
  jpeg_set_quality(&file, form.quality, TRUE);
  if (form.ycck) jpeg_set_colorspace(&file, JCS_YCCK);
  if (picture.channels == 4) file.write_Adobe_marker = form.adobe ? TRUE : FALSE;
  if (picture.channels == 3 || form.ycck) {
    file.comp_info[0].h_samp_factor = form.across;
    file.comp_info[0].v_samp_factor = form.down;
  }
  if (form.ycck) {
    file.comp_info[3].h_samp_factor = form.across;
    file.comp_info[3].v_samp_factor = form.down;
  }
  file.restart_interval = static_cast<unsigned>(form.restart);
  if (form.progressive) jpeg_simple_progression(&file);
  jpeg_start_compress(&file, TRUE);
  if (form.orientation > 0) {
    std::vector<std::byte> exif(6);
    std::memcpy(exif.data(), "Exif\0", 6);
    const std::vector<std::byte> data = exif_data(form.orientation, form.orientation % 2 == 0);
    exif.insert(exif.end(), data.begin(), data.end());
    jpeg_write_marker(&file, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  for (std::size_t y = 0; y < picture.height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.values.data() + y * picture.width * picture.channels);
    jpeg_write_scanlines(&file, &row, 1);
  }
  jpeg_finish_compress(&file);
  const auto* begin = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> bytes(begin, begin + size);
  jpeg_destroy_compress(&file);
  std::free(memory);
  return bytes;
}

Raw decoded_jpeg(const std::vector<std::byte>& file, unsigned reduction) {
  jpeg_decompress_struct in{};
  jpeg_error_mgr errors{};
  in.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&in);
  jpeg_mem_src(&in, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&in, TRUE);
  in.scale_num = 1;
  in.scale_denom = reduction;
  jpeg_start_decompress(&in);
  Raw raw{in.output_width, in.output_height, static_cast<std::size_t>(in.output_components), {}};
  raw.values.resize(raw.width * raw.height * raw.channels);
  while (in.output_scanline < in.output_height) {
    JSAMPROW row = raw.values.data() + in.output_scanline * raw.width * raw.channels;
    jpeg_read_scanlines(&in, &row, 1);
  }
  jpeg_finish_decompress(&in);
  jpeg_destroy_decompress(&in);
  return raw;
}

std::vector<std::byte> png_file(const Raw& picture, const PngForm& form) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::vector<std::byte> bytes;
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, std::size_t count) {
        auto& to = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(writer));
        const auto* from = reinterpret_cast<const std::byte*>(data);
        to.insert(to.end(), from, from + count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width), static_cast<png_uint_32>(picture.height), form.depth,
               form.type, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  if (form.type == PNG_COLOR_TYPE_PALETTE) {
    for (int i = 0; i < 1 << form.depth; ++i) {
      palette.push_back({static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(7 * i)});
    }
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
    const std::vector<png_byte> transparent(palette.size(), 40);
    png_set_tRNS(png, info, transparent.data(), static_cast<int>(transparent.size()), nullptr);
  }
  std::vector<std::byte> exif = exif_data(form.orientation, true);
  if (form.orientation > 0) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), reinterpret_cast<png_bytep>(exif.data()));
  }
  png_write_info(png, info);
  if (form.depth < 8) png_set_packing(png);
  std::vector<std::uint8_t> values;
  for (const std::uint8_t value : picture.values) {
    values.push_back(value);
    if (form.depth == 16) values.push_back(static_cast<std::uint8_t>(~value));
  }
  const std::size_t row_bytes = values.size() / picture.height;
  std::vector<png_bytep> rows;
  for (std::size_t y = 0; y < picture.height; ++y) rows.push_back(values.data() + y * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace sotto::test
