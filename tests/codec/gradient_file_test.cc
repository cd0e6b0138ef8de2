#include "sotto/codec/gradient_file.h"

#include <gtest/gtest.h>
#include <libdeflate.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <span>

#include "sotto/codec/basis.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

class GradientFiles : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string error_of(std::vector<std::byte> bytes, bool seal) {
    if (seal) {
      const std::uint32_t crc = libdeflate_crc32(0, bytes.data() + 16, bytes.size() - 16);
      std::memcpy(bytes.data() + 12, &crc, sizeof(crc));
    }
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    try {
      read_gradient_file(path_);
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos);
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("sotto-gradient-" + std::to_string(::getpid()) + "-" +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

// More elements than 32 bits can count. The sizes of the file are accepted; the error is that its values are missing.
TEST_F(GradientFiles, MayHaveMoreThanFourBillionElements) {
  const std::uint64_t elements = (std::uint64_t{1} << 32) + 24, step = 3, offset = 0;
  const std::uint32_t segments = 2, length = 1, dimensions = 1;
  std::vector<std::byte> file(16);
  std::memcpy(file.data(), "SOTTOGRD\x01\0\0\0", 12);
  const auto put = [&](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    file.insert(file.end(), bytes.begin(), bytes.end());
  };
  put(step), put(elements), put(segments);
  put(length), put('a'), put(offset), put(dimensions), put(elements - 16);
  put(length), put('b'), put(elements - 16), put(dimensions), put(std::uint64_t{16});
  file.resize(file.size() + 500'000);  // a frame of that many values could be this short
  EXPECT_NE(error_of(file, true).find("its values are not 4294967320 floats"), std::string::npos);
}

TEST_F(GradientFiles, ComeBackAsTheyWere) {
  for (const Layout& layout : {mixed_layout(), borrowed_layout(), Layout()}) {
    const auto values = gaussian(layout, 60);
    write_gradient_file(path_, 40, layout, values);
    const GradientFile read = read_gradient_file(path_);
    EXPECT_EQ(read.step, 40U);
    EXPECT_EQ(read.layout, layout);
    EXPECT_EQ(read.values, values);
  }
}

TEST_F(GradientFiles, HaveAValueForEachElement) {
  EXPECT_THROW(write_gradient_file(path_, 40, borrowed_layout(), std::vector<float>(3)), std::logic_error);
}

TEST_F(GradientFiles, AreRefusedWhenDamaged) {
  const Layout layout = borrowed_layout();
  write_gradient_file(path_, 40, layout, gaussian(layout, 61));
  const auto good = read_file(path_);
  EXPECT_EQ(error_of(good, true), "");
  EXPECT_NE(error_of({}, false).find("no captured gradient"), std::string::npos);
  auto bytes = good;
  bytes[8] = std::byte{2};
  EXPECT_NE(error_of(bytes, true).find("version 2"), std::string::npos);
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> part(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_NE(error_of(part, false), "") << length;
    if (length >= 16) {
      EXPECT_NE(error_of(part, true), "") << length;
    }
  }
  // Damages lengths, dimensions and offsets, with a right checksum. The file must be refused, or read without harm.
  for (std::size_t i = 16; i < good.size() && i < 200; ++i) {
    for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
      bytes = good;
      bytes[i] ^= static_cast<std::byte>(mask);
      error_of(bytes, true);
    }
  }
}

TEST(Basis, AMatrixOfLowRankIsForSvdASpikeForEntriesAWaveForDct) {
  Layout layout;
  layout.append("low rank", {40, 50});
  layout.append("spikes", {40, 50});
  layout.append("waves", {40, 64});
  layout.append("zero", {7});
  std::vector<float> values(layout.size());
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 50; ++j) {
      const auto sign = static_cast<float>((i * 7 % 3 == 0 ? 1 : -1) * (j * 5 % 7 < 3 ? 1 : -1));
      values[layout.segments()[0].offset + i * 50 + j] = sign;
      values[layout.segments()[1].offset + i * 50 + j] = i == j ? 1.0F : 0.0F;
    }
    for (std::size_t j = 0; j < 64; ++j) {
      values[layout.segments()[2].offset + i * 64 + j] =
          static_cast<float>(std::cos(3.14159265 * static_cast<double>((i + 1) * (2 * j + 1)) / 128));
    }
  }
  const auto weights = weigh_bases(layout, values, 64);
  EXPECT_EQ(weights[0].advice(), "svd");
  EXPECT_EQ(weights[1].advice(), "entries");
  EXPECT_EQ(weights[2].advice(), "dct");
  EXPECT_EQ(weights[3].advice(), "any");
  // The matrix has one singular value, sqrt(40 * 50), whose atom is 90 floats; or 40 entries of 1; or 40 coefficients
  // of sqrt(32).
  EXPECT_NEAR(weights[0].singular, std::sqrt(40 * 50 * 90.0), 1e-2);
  EXPECT_NEAR(weights[0].entries, 2000, 1e-3);
  EXPECT_NEAR(weights[1].entries, 40, 1e-5);
  EXPECT_NEAR(weights[1].singular, 40 * std::sqrt(90.0), 1e-3);
  EXPECT_NEAR(weights[2].cosine, 40 * std::sqrt(32.0), 1e-2);

  values[layout.segments()[1].offset] = INFINITY;
  EXPECT_THROW(weigh_bases(layout, values, 64), NumericError);
}

}  // namespace
}  // namespace sotto::testing
