#include "app/train/folder/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;
using test::message_of;
using test::TempFolder;

Layout two_tensors() {
  Layout layout;
  layout.append("fc.weight", {3, 5});
  layout.append("fc.bias", {3});
  return layout;
}

std::vector<float> counted(const Layout& layout) {
  std::vector<float> values(layout.size());
  std::iota(values.begin(), values.end(), -7.25F);
  layout.clear_padding(values);
  return values;
}

// A file of a header and `bytes` bytes of data.
fs::path made(const TempFolder& temp, const std::string& header, std::size_t bytes) {
  const fs::path path = temp.path() / "made.safetensors";
  const std::uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  std::ofstream(path, std::ios::binary) << text << header << std::string(bytes, '\1');
  return path;
}

TEST(Safetensors, ComeBackWithTheirMetadata) {
  const TempFolder temp;
  const fs::path path = temp.path() / "w.safetensors";
  const Layout layout = two_tensors();
  const std::vector<float> values = counted(layout);
  const std::array<TensorPart, 1> parts{{{layout, values}}};
  ThreadPool pool(2);
  const std::string hash = write_safetensors(path, parts, {{"format", "pt"}, {"note", "a \"b\"\n"}}, pool);
  EXPECT_EQ(hash, block_hash_of_file(path, pool));

  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.metadata().at("note"), "a \"b\"\n");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_EQ(reader.layout(), layout);
  std::vector<float> found(layout.size());
  reader.read(layout, found);
  EXPECT_EQ(found, values);
}

TEST(Safetensors, ValuesBeginAtAMultipleOfEightBytes) {
  const TempFolder temp;
  ThreadPool pool(1);
  const Layout layout = two_tensors();
  const std::vector<float> values = counted(layout);
  const std::array<TensorPart, 1> parts{{{layout, values}}};
  for (const char* note : {"", "1", "12", "123", "1234"}) {
    write_safetensors(temp.path() / "w", parts, {{"note", note}}, pool);
    const auto bytes = read_file(temp.path() / "w");
    EXPECT_EQ((bytes.size() - 18 * sizeof(float)) % 8, 0U);
  }
}

TEST(Safetensors, HalvesAreRoundedAndReadAsFloats) {
  const TempFolder temp;
  ThreadPool pool(1);
  Layout layout;
  layout.append("x", {4});
  std::vector<float> values(layout.size());
  values[0] = 1.0F + 0x1p-20F;
  values[1] = -65504;
  values[2] = 0.333F;
  const std::array<TensorPart, 1> parts{{{layout, values}}};
  const auto back = [&](FloatType type) {
    write_safetensors(temp.path() / "w", parts, {}, pool, type);
    std::vector<float> found(layout.size());
    SafetensorsReader(temp.path() / "w").read(layout, found);
    return found;
  };
  EXPECT_EQ(back(FloatType::f16)[0], 1);
  EXPECT_EQ(back(FloatType::f16)[1], -65504);
  EXPECT_NEAR(back(FloatType::f16)[2], 0.333, 0.333 * 0x1p-11);
  EXPECT_NEAR(back(FloatType::bf16)[2], 0.333, 0.333 * 0x1p-8);
  values[3] = 65536;
  EXPECT_NE(message_of([&] { back(FloatType::f16); }).find("tensor x holds 65536"), std::string::npos);
  EXPECT_EQ(back(FloatType::bf16)[3], 65536);
}

TEST(Safetensors, OfDoublesAreRead) {
  const TempFolder temp;
  const fs::path path = temp.path() / "made.safetensors";
  const std::string header = R"({"x":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})";
  const auto read = [&](double value) {
    made(temp, header, 0);
    std::array<char, sizeof value> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    std::ofstream(path, std::ios::binary | std::ios::app).write(bytes.data(), bytes.size());
    std::array<float, 1> found{};
    SafetensorsReader(path).read("x", {}, found);
    return found[0];
  };
  EXPECT_EQ(read(2.5), 2.5F);
  EXPECT_NE(message_of([&] { read(1e300); }).find("tensor x holds 1e+300, which no float32 can hold"),
            std::string::npos);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TempFolder temp;
  const fs::path path = temp.path() / "w.safetensors";
  ThreadPool pool(1);
  const Layout layout = two_tensors();
  const std::vector<float> values = counted(layout);
  const std::array<TensorPart, 1> parts{{{layout, values}}};
  write_safetensors(path, parts, {}, pool);
  for (auto size = fs::file_size(path); size-- > 0;) {
    fs::resize_file(path, size);
    const std::string message = message_of([&] { SafetensorsReader reader(path); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << size << ": " << message;
  }
}

TEST(Safetensors, WrongHeadersAreErrors) {
  const TempFolder temp;
  const auto message = [&](const std::string& header, std::size_t bytes) {
    const fs::path path = made(temp, header, bytes);
    return message_of([&] { SafetensorsReader reader(path); });
  };
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(message(tensor("[2]", "[0,8]"), 8), "");
  EXPECT_TRUE(has(message(tensor("[2]", "[0,8]"), 9), "1 surplus bytes"));
  EXPECT_TRUE(has(message(tensor("[2]", "[0,8]"), 7), "truncated: tensor x"));
  EXPECT_TRUE(has(message(tensor("[3]", "[0,8]"), 8), "shape 3 has 8 bytes"));
  EXPECT_TRUE(has(message(tensor("[-1]", "[0,8]"), 8), "shape -1"));
  EXPECT_TRUE(has(message(tensor("[4294967296,4294967296]", "[0,8]"), 8), "shape 4294967296x4294967296"));
  EXPECT_TRUE(has(message(tensor("[2]", "[8,0]"), 8), "tensor x"));
  EXPECT_TRUE(has(message(tensor("[2]", "[18446744073709551608,0]"), 8), "tensor x"));
  EXPECT_TRUE(has(message(tensor("[2]", "[0]"), 8), "not a safetensors file"));
  EXPECT_TRUE(has(message(tensor("2", "[0,8]"), 8), "not a safetensors file"));
  EXPECT_EQ(message(tensor("[5,0]", "[0,0]"), 0), "") << "an empty tensor is one";
  const std::string overlapping = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_TRUE(has(message(overlapping, 8), "tensor y begins at byte"));
  EXPECT_TRUE(has(message("{}}", 0), "not a safetensors file"));
  EXPECT_TRUE(has(message("[1]", 0), "not a safetensors file"));
}

TEST(Safetensors, WhatIsReadMustBeThereAndFit) {
  const TempFolder temp;
  const fs::path path = made(temp,
                             R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                             16);
  const SafetensorsReader reader(path);
  std::array<float, 2> values{};
  const std::array<std::int64_t, 1> two{2}, three{3};
  const auto message = [&](std::string_view name, std::span<const std::int64_t> shape) {
    return message_of([&] { reader.read(name, shape, values); });
  };
  EXPECT_EQ(message("x", two), "");
  EXPECT_NE(message("y", two).find("tensor y is missing"), std::string::npos);
  EXPECT_NE(message("x", three).find("has the shape 2, the model's is 3"), std::string::npos);
  EXPECT_NE(message("n", {}).find("is of type I64"), std::string::npos);
  EXPECT_EQ(reader.layout().segments().size(), 1U);
}

}  // namespace
}  // namespace sotto
