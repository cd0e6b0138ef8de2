#include "app/cli/codec/vector_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "sotto/core/error.h"

namespace sotto {
namespace {

class VectorFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::vector<float> read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return read_vector(path_).values;
  }
  std::string error_of(const std::string& content) {
    try {
      read(content);
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      fmt::format("sotto-{}-{}.f32", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::string raw(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string npy(const std::string& header, const std::vector<float>& values, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += static_cast<char>(header.size());
  text += '\0';
  if (version > 1) text += std::string(2, '\0');
  return text + header + raw(values);
}

TEST_F(VectorFile, RawValues) { EXPECT_EQ(read(raw({1, -2.5F, 0})), (std::vector<float>{1, -2.5F, 0})); }

TEST_F(VectorFile, NpyOfEveryShapeAndVersion) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  for (const char* shape : {"(6,)", "(2, 3)", "(1, 2, 3)"}) {
    const std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}  \n", shape);
    EXPECT_EQ(read(npy(header, values)), values);
    EXPECT_EQ(read(npy(header, values, 2)), values);
  }
}

TEST_F(VectorFile, KeepsTheShape) {
  std::ofstream(path_, std::ios::binary) << npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                                {1, 2, 3, 4, 5, 6});
  const GradientFile file = read_vector(path_);
  ASSERT_EQ(file.layout.segments().size(), 1U);
  EXPECT_EQ(file.layout.segments()[0].shape, (std::vector<std::int64_t>{2, 3}));
}

TEST_F(VectorFile, NpyOfOtherPrecisions) {
  const std::vector<double> doubles{1, -0.5};
  std::vector<float> as_floats(4);
  std::memcpy(as_floats.data(), doubles.data(), sizeof(double) * 2);
  EXPECT_EQ(read(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", as_floats)),
            (std::vector<float>{1, -0.5F}));
  const std::vector<std::uint16_t> halves{0x3C00, 0xB800};
  std::vector<float> one(1);
  std::memcpy(one.data(), halves.data(), sizeof(float));
  EXPECT_EQ(read(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", one)),
            (std::vector<float>{1, -0.5F}));
}

TEST_F(VectorFile, NamesWhatIsWrong) {
  const auto header = [](const char* type, const char* order, const char* shape) {
    return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  };
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("12345"), "");
  EXPECT_NE(error_of(npy(header("<i4", "False", "(4,)"), {1, 2, 3, 4})), "");
  EXPECT_NE(error_of(npy(header("<f4", "True", "(2,)"), {1, 2})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(3,)"), {1, 2})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(1,)"), {1, 2})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(0,)"), {})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(4294967296, 4294967296)"), {})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(x,)"), {1})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(1"), {1})), "");
  EXPECT_NE(error_of(npy("{'descr': '<f4'}", {1})), "");
  EXPECT_NE(error_of(npy(header("<f4", "False", "(1,)"), {1}, 9)), "");
}

TEST_F(VectorFile, RawIsWhatIsCalledSo) {
  const std::string text = raw({1, 2});
  EXPECT_EQ(error_of(text), "");
  std::filesystem::remove(path_);
  path_.replace_extension(".txt");
  EXPECT_NE(error_of(text).find("which ends in one of .f32, .raw, .bin"), std::string::npos);
  std::filesystem::remove(path_);
  path_.replace_extension(".bin");
  EXPECT_EQ(error_of(text), "");
}

TEST_F(VectorFile, AnNpzIsNoTorchFile) {
  std::string zip("PK\x03\x04", 4);
  zip += std::string(22, '\0') + std::string("\x05\0\0\0", 4) + "a.npy";
  EXPECT_NE(error_of(zip).find("a .npz; save one array with numpy.save"), std::string::npos);
  for (std::size_t size = 4; size < zip.size(); ++size) EXPECT_NE(error_of(zip.substr(0, size)), "") << size;
}

TEST_F(VectorFile, SaysWhereAValueIsNotFinite) {
  const GradientFile file{Layout({{"a", 0, {2}}, {"b", 2, {2}}}, 4), {1, 2, 3, INFINITY}};
  try {
    require_finite("x.npy", file);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(std::string(error.what()), "x.npy: b holds inf");
  }
}

TEST_F(VectorFile, EveryTruncationIsAnError) {
  const std::string whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", {1, 2});
  for (std::size_t size = 6; size < whole.size(); ++size) EXPECT_NE(error_of(whole.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace sotto
