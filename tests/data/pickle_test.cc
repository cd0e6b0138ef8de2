#include "app/data/images/pickle.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;
using test::TemporaryFolder;
using namespace std::string_literals;
namespace fs = std::filesystem;

std::string little_endian(std::uint32_t value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

// The bytes that Python 2's cPickle writes in protocol 2, as the authors of CIFAR did, for {"labels": [...], "data": an
// array of rows x columns bytes}: head() is the part before the values of the array, `tail` the part after them.
std::string head(const std::string& key, const std::vector<std::uint8_t>& labels, std::uint32_t rows,
                 std::uint32_t columns) {
  std::string text = "\x80\x02}q\x01(U"s + static_cast<char>(key.size()) + key + "q\x02]q\x03("s;
  for (const std::uint8_t label : labels) text += "K"s + static_cast<char>(label);
  text += "eU\x04"s + "dataq\x04"s + "cnumpy.core.multiarray\n_reconstruct\nq\x05"s + "cnumpy\nndarray\nq\x06"s +
          "K\0\x85q\x07U\x01"s + "b\x87Rq\x08(K\x01J"s + little_endian(rows) + "J" + little_endian(columns) + "\x86"s +
          "cnumpy\ndtype\nq\x09U\x02u1K\0K\x01\x87Rq\x0a(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0"s +
          "tb\x89T"s + little_endian(rows * columns);
  return text;
}
const std::string tail = "tbU\x0b"s + "batch_labelq\x0bU\x04testq\x0cu."s;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string error(const std::string& text) {
  return error_of<FileError>([&] {
    const Pickle pickle("batch", bytes_of(text));
    pickle.array("data");
    pickle.integers("labels");
  });
}

TEST(Pickle, ReadsWhatPythonWrote) {
  const std::string text = head("labels", {3, 1, 255}, 3, 2) + "abcdef" + tail;
  const Pickle pickle("batch", bytes_of(text));
  EXPECT_EQ(pickle.integers("labels"), (std::vector<std::int64_t>{3, 1, 255}));
  const Pickle::Array data = pickle.array("data");
  EXPECT_EQ(data.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(std::memcmp(data.values.data(), "abcdef", 6), 0);
  EXPECT_NE(error_of<FileError>([&] { pickle.integers("fine_labels"); }).find("no key fine_labels"), std::string::npos);
  EXPECT_NE(error_of<FileError>([&] { pickle.array("labels"); }).find("labels is no array"), std::string::npos);
  EXPECT_NE(error_of<FileError>([&] { pickle.integers("batch_label"); }).find("is no list"), std::string::npos);
}

TEST(Pickle, CallsNothing) {
  const auto expect = [](const std::string& text, const std::string& what) {
    EXPECT_NE(error(text).find(what), std::string::npos) << error(text);
  };
  expect("\x80\x02"s + "cos\nsystem\n(U\x04halttR.", "batch: byte 2: the pickle wants to call");
  expect("\x80\x02"s + "cnumpy\nload\n.", "wants to call");
  expect("(S'ls'\nios\nsystem\n.", "byte 1: opcode 0x53");  // protocol 0
  expect("\x80\x04\x95."s, "protocol 4");
  expect("\x80\x02}(K\x01u."s, "a key without a value");
  expect("\x80\x02]q\x01h\x01"s + "a.", "no dictionary");  // a list that contains itself
  expect("\x80\x02h\x07."s, "no object 7");
  expect("\x80\x02u."s, "a mark is missing");
  expect("\x80\x02}(K\x01K\x02K\x03s."s, "neither list nor dictionary");
  expect("\x80\x02}(s."s, "an operand is missing");
  expect("\x80\x02}.."s, "surplus bytes");
  expect("", "truncated");
  expect("\x80\x02"s + std::string((1 << 20) + 1, 'N'), "too many objects");
  expect(head("labels", {1}, 2, 3) + "abcde" + tail, "");
  std::string other = head("labels", {1}, 2, 3) + "abcdef" + tail;
  expect(other.replace(other.find("u1"), 2, "f4"), "other elements than bytes");
  std::string shape = head("labels", {1}, 0x10000, 0x10000);
  expect(shape.replace(shape.size() - 4, 4, little_endian(0)) + tail, "which its shape denies");  // 2^32 mod 2^32
}

// What Python 3 writes in protocol 2 for {b"labels": [3, 1], "data": an array of 2 x 2 bytes 0, 127, 128, 255}: bytes
// are a text of as many characters, to be encoded.
const std::string of_python3 =
    "\x80\x02}q\x00(c_codecs\nencode\nq\x01X\x06\0\0\0labelsq\x02X\x06\0\0\0latin1q\x03\x86q\x04Rq\x05]q\x06("s +
    "K\x03K\x01"s + "eX\x04\0\0\0"s + "dataq\x07"s + "cnumpy.core.multiarray\n_reconstruct\nq\x08"s +
    "cnumpy\nndarray\nq\x09K\0\x85q\x0ah\x01X\x01\0\0\0"s +
    "bq\x0bh\x03\x86q\x0cRq\x0d\x87q\x0eRq\x0f(K\x01K\x02K\x02\x86q\x10"s +
    "cnumpy\ndtype\nq\x11X\x02\0\0\0u1q\x12\x89\x88\x87q\x13Rq\x14(K\x03X\x01\0\0\0|q\x15NNNJ\xff\xff\xff\xffJ\xff\xff"s +
    "\xff\xffK\0tq\x16"s + "b\x89h\x01X\x06\0\0\0\0\x7f\xc2\x80\xc3\xbfq\x17h\x03\x86q\x18Rq\x19tq\x1a"s + "bu."s;

TEST(Pickle, ReadsWhatPython3WroteInProtocol2) {
  const Pickle pickle("batch", bytes_of(of_python3));
  EXPECT_EQ(pickle.integers("labels"), (std::vector<std::int64_t>{3, 1}));
  const Pickle::Array data = pickle.array("data");
  EXPECT_EQ(data.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(std::ranges::equal(data.values, bytes_of("\0\x7f\x80\xff"s)));
  for (const auto& [from, to, what] :
       {std::tuple{"\xc2\x80"s, "\xc4\x80"s, "not in latin1"}, std::tuple{"\xc2\x80"s, "\xc2\x41"s, "not in latin1"},
        std::tuple{"latin1"s, "utf-16"s, "a call of encode()"},
        std::tuple{"_codecs\nencode"s, "_codecs\ndecode"s, "wants to call"}}) {
    std::string other = of_python3;
    EXPECT_NE(error(other.replace(other.find(from), from.size(), to)).find(what), std::string::npos) << error(other);
  }
  std::string empty = of_python3;
  empty.replace(empty.find("X\x04\0\0\0"s + "data"), 0, "c__builtin__\nbytes\n)RN"s);  // {.., b"": None}
  EXPECT_NO_THROW(Pickle("batch", bytes_of(empty)));
  for (std::size_t n = 0; n < of_python3.size(); ++n) {
    EXPECT_NE(error(of_python3.substr(0, n)).find("truncated"), std::string::npos) << n;
  }
}

TEST(Pickle, EveryTruncationIsAnError) {
  const std::string whole = head("labels", {3, 1, 4}, 3, 2) + "abcdef" + tail;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(error(whole.substr(0, n)).find("truncated"), std::string::npos) << n;
  }
}

TEST(Pickle, DamageIsAnErrorOrOtherData) {
  const std::string whole = head("labels", {3, 1, 4}, 3, 2) + "abcdef" + tail;
  const ElementStream draws{1, 2};
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (std::uint32_t change = 0; change <= i % 3; ++change) {
      const auto at = static_cast<std::size_t>(draws.uniform(8 * i + 2 * change) * static_cast<float>(whole.size()));
      damaged.at(at) = static_cast<char>(static_cast<int>(draws.uniform(8 * i + 2 * change + 1) * 256));
    }
    try {
      const Pickle pickle("batch", bytes_of(damaged));
      const Pickle::Array data = pickle.array("data");
      std::int64_t elements = 1;
      for (const std::int64_t side : data.shape) elements *= side;
      ASSERT_EQ(static_cast<std::size_t>(elements), data.values.size());
      pickle.integers("labels");
    } catch (const FileError& failure) {
      ASSERT_TRUE(std::string(failure.what()).starts_with("batch: ")) << failure.what();
    }
  }
}

class PickledCifar : public testing::Test {
 protected:
  // A batch whose pixels are 0, but for the last one. The zeros take no space on the disk.
  void write(const fs::path& path, const std::string& key, const std::vector<std::uint8_t>& labels,
             std::uint32_t rows) {
    const std::string begin = head(key, labels, rows, 3072);
    std::ofstream file(path, std::ios::binary);
    file << begin;
    file.seekp(static_cast<std::streamoff>(begin.size() + std::size_t{rows} * 3072 - 1));
    file << '\xff' << tail;
    ASSERT_TRUE(file.flush());
  }
  std::string error(const std::string& name) const {
    return error_of<FileError>([&] { open_dataset({.data = name, .data_dir = folder_.path().string()}, Split::test); });
  }
  TemporaryFolder folder_;
};

TEST_F(PickledCifar, HasTheFormOfTheBinaryOne) {
  std::vector<std::uint8_t> labels(10'000, 7);
  fs::create_directory(folder_ / "cifar-10-batches-py");
  fs::create_directory(folder_ / "cifar-100-python");
  write(folder_ / "cifar-10-batches-py" / "test_batch", "labels", labels, 10'000);
  labels.back() = 99;
  write(folder_ / "cifar-100-python" / "test", "fine_labels", labels, 10'000);
  std::vector<float> image(3072);
  std::int64_t label = -1;
  const auto ten = open_dataset({.data = "cifar10", .data_dir = folder_.path().string()}, Split::test);
  ten->read(9'999, image, label);
  EXPECT_EQ(label, 7);
  EXPECT_NEAR(image[3070], -0.4465 / 0.2616, 1e-5);
  EXPECT_NEAR(image[3071], (1 - 0.4465) / 0.2616, 1e-5);
  const auto hundred = open_dataset({.data = "cifar100", .data_dir = folder_.path().string()}, Split::test);
  hundred->read(9'999, image, label);
  EXPECT_EQ(label, 99);
  EXPECT_EQ(hundred->classes(), 100);
}

TEST_F(PickledCifar, DamageIsNamed) {
  const fs::path path = folder_ / "test_batch";
  const auto expect = [&](const std::string& what) {
    const std::string message = error("cifar10");
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  expect("no such file");
  std::vector<std::uint8_t> labels(10'000, 7);
  labels[5] = 10;
  write(path, "labels", labels, 10'000);
  expect("record 5 has label 10, which is not in 0..9");
  labels.pop_back();
  write(path, "labels", labels, 10'000);
  expect("9999 labels for 10000 images");
  labels[5] = 7;
  write(path, "labels", labels, 9'999);
  EXPECT_EQ(open_dataset({.data = "cifar10", .data_dir = folder_.path().string(), .test_size = 5}, Split::test)->size(),
            5U);
  write(path, "fine_labels", labels, 10'000);
  expect("no key labels");
}

}  // namespace
}  // namespace sotto
