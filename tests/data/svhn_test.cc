// MATLAB 5 files made here, plain and compressed, whole and damaged.
#include "app/data/images/dataset.h"

#include <libdeflate.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/core/error.h"
#include "tests/core/helpers.h"
#include "tests/data/picture_files.h"

namespace sotto {
namespace {

using test::error_of;
using Bytes = std::vector<std::byte>;

void put(Bytes& to, std::uint32_t value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
void put_element(Bytes& to, std::uint32_t type, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  const auto count = static_cast<std::uint32_t>(bytes.size());
  if (count > 0 && count <= 4) {  // the short form of an element
    put(to, count << 16U | type);
    to.insert(to.end(), bytes.begin(), bytes.end());
    to.resize((to.size() + 3) / 4 * 4);
    return;
  }
  put(to, type);
  put(to, count);
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize((to.size() + 7) / 8 * 8);
}

template <class T>
Bytes variable(const std::string& name, std::uint32_t array_class, const std::vector<std::int32_t>& shape,
               std::uint32_t type, const std::vector<T>& values) {
  Bytes body;
  put_element<std::uint32_t>(body, 6, {array_class, 0});
  put_element(body, 5, shape);
  put_element(body, 1, std::vector<char>(name.begin(), name.end()));
  put_element(body, type, values);
  Bytes bytes;
  put(bytes, 14);
  put(bytes, static_cast<std::uint32_t>(body.size()));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Bytes deflated(const Bytes& bytes) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> c(libdeflate_alloc_compressor(6),
                                                                                   libdeflate_free_compressor);
  Bytes content(libdeflate_zlib_compress_bound(c.get(), bytes.size()));
  content.resize(libdeflate_zlib_compress(c.get(), bytes.data(), bytes.size(), content.data(), content.size()));
  Bytes element;
  put(element, 15);
  put(element, static_cast<std::uint32_t>(content.size()));
  element.insert(element.end(), content.begin(), content.end());
  return element;
}

Bytes file_of(std::initializer_list<Bytes> variables) {
  Bytes bytes(124, std::byte{' '});
  std::memcpy(bytes.data(), "MATLAB 5.0 MAT-file", 19);
  for (const char c : {'\0', '\1', 'I', 'M'}) bytes.push_back(static_cast<std::byte>(c));
  for (const Bytes& one : variables) bytes.insert(bytes.end(), one.begin(), one.end());
  return bytes;
}

constexpr std::size_t count = 5;

std::uint8_t pixel(std::size_t image, std::size_t channel, std::size_t row, std::size_t column) {
  return static_cast<std::uint8_t>(image * 50 + channel * 70 + row * 3 + column * 5);
}

Bytes images() {
  std::vector<std::uint8_t> values;
  for (std::size_t image = 0; image < count; ++image) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t column = 0; column < 32; ++column) {
        for (std::size_t row = 0; row < 32; ++row) values.push_back(pixel(image, channel, row, column));
      }
    }
  }
  return variable<std::uint8_t>("X", 9, {32, 32, 3, count}, 2, values);
}

Bytes labels(const std::vector<std::uint8_t>& digits = {1, 10, 3, 9, 10}) {
  return variable("y", 9, {static_cast<std::int32_t>(digits.size()), 1}, 2, digits);
}

class Svhn : public testing::Test {
 protected:
  void write(const Bytes& bytes) const { test::write_bytes(folder_ / "train_32x32.mat", bytes); }
  std::unique_ptr<Dataset> open(std::int64_t size = 0) const {
    return open_dataset({.data = "svhn", .data_dir = folder_.path().string(), .train_size = size}, Split::train);
  }
  void expect_error(const Bytes& bytes, const std::string& what) const {
    write(bytes);
    const std::string error = error_of<FileError>([&] { open(); });
    EXPECT_NE(error.find((folder_ / "train_32x32.mat").string()), std::string::npos) << error;
    EXPECT_NE(error.find(what), std::string::npos) << error;
  }
  void expect_whole() const {
    const auto data = open();
    ASSERT_EQ(data->size(), count);
    EXPECT_EQ(data->shape(), (ImageShape{3, 32, 32}));
    EXPECT_EQ(data->classes(), 10);
    std::vector<float> image(3072);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t label = -1;
      data->read(i, image, label);
      EXPECT_EQ(label, (std::array{1, 0, 3, 9, 0}[i]));
      for (std::size_t row = 0; row < 32; ++row) {
        for (std::size_t column = 0; column < 32; ++column) {
          ASSERT_NEAR(image[row * 32 + column], (pixel(i, 0, row, column) / 255.0 - 0.4377) / 0.1980, 1e-5);
          ASSERT_NEAR(image[2048 + row * 32 + column], (pixel(i, 2, row, column) / 255.0 - 0.4728) / 0.1970, 1e-5);
        }
      }
    }
  }
  test::TemporaryFolder folder_;
};

TEST_F(Svhn, PlainAndPacked) {
  write(file_of({images(), labels()}));
  expect_whole();
  write(file_of({deflated(images()), deflated(labels())}));
  expect_whole();
  const Bytes other = variable<double>("note", 6, {1, 1}, 9, {3.5});
  write(file_of({other, deflated(labels()), deflated(other), images()}));
  expect_whole();
  EXPECT_EQ(open(2)->size(), 2U);
  EXPECT_NE(error_of<ConfigError>([&] { open(6); }).find("train-size 6"), std::string::npos);
}

TEST_F(Svhn, LabelsOfAnyType) {
  write(file_of({images(), variable<double>("y", 6, {count, 1}, 9, {1, 10, 3, 9, 10})}));
  expect_whole();
  write(file_of({images(), variable<float>("y", 7, {count, 1}, 7, {1, 10, 3, 9, 10})}));
  expect_whole();
  write(file_of({images(), variable<std::int16_t>("y", 6, {count, 1}, 3, {1, 10, 3, 9, 10})}));
  expect_whole();
}

TEST_F(Svhn, WhatDoesNotFitIsNamed) {
  expect_error(file_of({images()}), "holds no variable y");
  expect_error(file_of({labels()}), "holds no variable X");
  expect_error(file_of({images(), labels({1, 2, 3, 11, 5})}), "label 3 is 11, which is not in 1..10");
  expect_error(file_of({images(), labels({1, 0, 3, 1, 5})}), "label 1 is 0");
  expect_error(file_of({images(), variable<double>("y", 6, {count, 1}, 9, {1, 2.5, 3, 4, 5})}), "label 1 is 2.5");
  expect_error(file_of({images(), labels({1, 2, 3, 4})}), "32x32x3x5 in place of 32x32x3x4");
  expect_error(file_of({variable<std::uint8_t>("X", 9, {4, 2}, 2, std::vector<std::uint8_t>(8)), labels()}), "4x2");
  expect_error(file_of({variable<std::uint8_t>("X", 9, {4, 3}, 2, std::vector<std::uint8_t>(8)), labels()}),
               "do not match its shape");
  expect_error(file_of({variable<std::uint8_t>("X", 9, {-4, -2}, 2, std::vector<std::uint8_t>(8)), labels()}),
               "do not match its shape");
  expect_error(file_of({variable<std::uint8_t>("X", 1, {4, 2}, 2, std::vector<std::uint8_t>(8)), labels()}),
               "is no array of real numbers");
  Bytes big_endian = file_of({images(), labels()});
  std::swap(big_endian[126], big_endian[127]);
  expect_error(big_endian, "is no file of MATLAB 5");
  expect_error({}, "is no file of MATLAB 5");
  std::filesystem::remove(folder_ / "train_32x32.mat");
  EXPECT_NE(error_of<FileError>([&] { open(); }).find("`sotto data get svhn` downloads it"), std::string::npos);
}

TEST_F(Svhn, EveryTruncationIsAnError) {
  for (const Bytes& file : {file_of({deflated(images()), deflated(labels())}), file_of({labels(), images()})}) {
    for (std::size_t n = 0; n < file.size(); n += n < 300 || n + 100 > file.size() ? 1 : 149) {
      write({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)});
      EXPECT_FALSE(error_of<FileError>([&] { open(); }).empty()) << n;
    }
  }
}

TEST_F(Svhn, FlippedBitsNeverGiveOtherData) {
  const Bytes file = file_of({deflated(images()), deflated(labels())});
  for (std::size_t n = 124; n < file.size(); n += 1 + n / 300) {
    Bytes damaged = file;
    damaged[n] ^= std::byte{1} << n % 8;
    write(damaged);
    try {
      open();
    } catch (const FileError&) {
      continue;
    }
    expect_whole();  // the bit means nothing
  }
}

}  // namespace
}  // namespace sotto
