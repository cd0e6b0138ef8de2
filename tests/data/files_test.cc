// MNIST and CIFAR-10 from files made here, whole and damaged in every way.
#include <libdeflate.h>

#include <fstream>
#include <memory>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/data/dataset.h"
#include "sotto/data/idx.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

void write(const fs::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush());
}

Bytes gzip(const Bytes& bytes) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> c(libdeflate_alloc_compressor(6),
                                                                                   libdeflate_free_compressor);
  Bytes packed(libdeflate_gzip_compress_bound(c.get(), bytes.size()));
  packed.resize(libdeflate_gzip_compress(c.get(), bytes.data(), bytes.size(), packed.data(), packed.size()));
  return packed;
}

Bytes idx(const std::vector<std::uint32_t>& shape, const Bytes& body) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(shape.size())};
  for (const auto n : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
  }
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Bytes made_images(std::uint32_t count) {
  Bytes body(std::size_t{count} * 784);
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::uint8_t>(i * 31 + i / 784);
  return body;
}

constexpr std::uint32_t examples = 12;
const Bytes labels{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 0};

class Mnist : public testing::Test {
 protected:
  void SetUp() override {
    write(folder_ / "train-images-idx3-ubyte", idx({examples, 28, 28}, made_images(examples)));
    write(folder_ / "train-labels-idx1-ubyte", idx({examples}, labels));
  }
  DataOptions options() const { return {.data = "mnist", .data_dir = folder_.path().string()}; }
  void expect_whole(const DataOptions& data_options) const {
    const auto data = open_dataset(data_options, Split::train);
    ASSERT_EQ(data->size(), examples);
    EXPECT_EQ(data->shape(), (ImageShape{1, 28, 28}));
    EXPECT_EQ(data->classes(), 10);
    const Bytes images = made_images(examples);
    std::vector<float> image(784);
    std::int64_t label = -1;
    for (std::size_t i = 0; i < examples; ++i) {
      data->read(i, image, label);
      EXPECT_EQ(label, labels[i]);
      for (std::size_t p = 0; p < 784; ++p) {
        EXPECT_NEAR(image[p], (images[i * 784 + p] / 255.0 - 0.1307) / 0.3081, 1e-5);
      }
    }
  }
  // The FileError of opening; it names the file, and what is wrong.
  void expect_error(const std::string& file, const std::string& what) const {
    const std::string error = error_of<FileError>([&] { open_dataset(options(), Split::train); });
    EXPECT_NE(error.find((folder_ / file).string()), std::string::npos) << error;
    EXPECT_NE(error.find(what), std::string::npos) << error;
  }
  TemporaryFolder folder_;
};

TEST_F(Mnist, Plain) { expect_whole(options()); }

TEST_F(Mnist, GzippedAndWithDots) {
  fs::remove(folder_ / "train-images-idx3-ubyte");
  fs::rename(folder_ / "train-labels-idx1-ubyte", folder_ / "train-labels.idx1-ubyte");
  write(folder_ / "train-images-idx3-ubyte.gz", gzip(idx({examples, 28, 28}, made_images(examples))));
  expect_whole(options());
}

TEST_F(Mnist, GzippedUnderThePlainName) {
  write(folder_ / "train-labels-idx1-ubyte", gzip(idx({examples}, labels)));
  expect_whole(options());
}

TEST_F(Mnist, SizesAreHonoured) {
  DataOptions some = options();
  some.train_size = 5;
  EXPECT_EQ(open_dataset(some, Split::train)->size(), 5U);
  some.train_size = examples + 1;
  const std::string error = error_of<ConfigError>([&] { open_dataset(some, Split::train); });
  EXPECT_NE(error.find("train-size 13"), std::string::npos) << error;
  EXPECT_NE(error.find("holds 12 training examples"), std::string::npos) << error;
}

TEST_F(Mnist, MissingFileSaysHowToGetIt) {
  const std::string error = error_of<FileError>([&] { open_dataset(options(), Split::test); });
  EXPECT_NE(error.find((folder_ / "t10k-images-idx3-ubyte").string()), std::string::npos) << error;
  EXPECT_NE(error.find("`sotto data get mnist` downloads it"), std::string::npos) << error;
}

TEST_F(Mnist, EveryTruncationIsAnError) {
  const Bytes whole = idx({examples}, labels);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(folder_ / "train-labels-idx1-ubyte", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    expect_error("train-labels-idx1-ubyte", "truncated");
  }
}

TEST_F(Mnist, EveryTruncationOfAGzippedFileIsAnError) {
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  const Bytes whole = gzip(idx({examples}, labels));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(folder_ / "train-labels-idx1-ubyte.gz", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    expect_error("train-labels-idx1-ubyte.gz", "");
  }
}

TEST_F(Mnist, FlippedBitsOfAGzippedFileNeverGiveOtherData) {
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  const Bytes whole = gzip(idx({examples}, labels));
  std::size_t errors = 0;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    Bytes damaged = whole;
    damaged[n] ^= 0x10;
    write(folder_ / "train-labels-idx1-ubyte.gz", damaged);
    try {
      EXPECT_EQ(read_idx(folder_ / "train-labels-idx1-ubyte.gz", 1).values, labels) << "byte " << n;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("train-labels-idx1-ubyte.gz"), std::string::npos) << error.what();
      ++errors;
    }
  }
  EXPECT_GE(errors, whole.size() - 10);  // a few bits mean nothing: the time in the header, what fills up the last byte
}

TEST_F(Mnist, SurplusBytes) {
  Bytes longer = idx({examples}, labels);
  longer.push_back(0);
  write(folder_ / "train-labels-idx1-ubyte", longer);
  expect_error("train-labels-idx1-ubyte", "surplus");
}

TEST_F(Mnist, WrongMagic) {
  Bytes floats = idx({examples}, labels);
  floats[2] = 0x0D;
  write(folder_ / "train-labels-idx1-ubyte", floats);
  expect_error("train-labels-idx1-ubyte", "00000d01 instead of 00000801");
  write(folder_ / "train-labels-idx1-ubyte", idx({examples, 28, 28}, made_images(examples)));
  expect_error("train-labels-idx1-ubyte", "00000803 instead of 00000801");
}

TEST_F(Mnist, HugeDimensionsDoNotOverflow) {
  write(folder_ / "train-images-idx3-ubyte", idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {}));
  expect_error("train-images-idx3-ubyte", "truncated");
  write(folder_ / "train-images-idx3-ubyte", idx({0x80000000, 2, 0x80000000}, {}));  // a product of 2^63 mod 2^64
  expect_error("train-images-idx3-ubyte", "truncated");
}

TEST_F(Mnist, CountsDiffer) {
  write(folder_ / "train-labels-idx1-ubyte", idx({examples - 1}, {labels.begin(), labels.end() - 1}));
  expect_error("train-labels-idx1-ubyte", "holds 12 images");
}

TEST_F(Mnist, OtherImageSizes) {
  write(folder_ / "train-images-idx3-ubyte", idx({1, 2, 3}, Bytes(6)));
  expect_error("train-images-idx3-ubyte", "2x3 pixels instead of 28x28");
  write(folder_ / "train-images-idx3-ubyte", idx({0, 28, 28}, {}));
  write(folder_ / "train-labels-idx1-ubyte", idx({0}, {}));
  expect_error("train-images-idx3-ubyte", "no images");
}

TEST_F(Mnist, LabelThatIsNoDigit) {
  Bytes wrong = labels;
  wrong[7] = 10;
  write(folder_ / "train-labels-idx1-ubyte", idx({examples}, wrong));
  expect_error("train-labels-idx1-ubyte", "label 7 is 10");
}

class Cifar : public testing::Test {
 protected:
  static constexpr std::size_t record = 1 + 3072;
  // 10,000 records of zeros, without using the disk for them.
  void make(const fs::path& path) {
    write(path, {});
    fs::resize_file(path, 10'000 * record);
  }
  void set(const fs::path& path, std::size_t offset, std::uint8_t value) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(value));
    ASSERT_TRUE(file.flush());
  }
  DataOptions options() const { return {.data = "cifar10", .data_dir = folder_.path().string()}; }
  std::string error() const {
    return error_of<FileError>([&] { open_dataset(options(), Split::test); });
  }
  TemporaryFolder folder_;
};

TEST_F(Cifar, RecordsChannelsAndNormalisation) {
  const fs::path sub = folder_ / "cifar-10-batches-bin";
  fs::create_directory(sub);
  for (const char* n : {"1", "2", "3", "4", "5"}) make(sub / (std::string("data_batch_") + n + ".bin"));
  set(sub / "data_batch_3.bin", 7 * record, 6);
  set(sub / "data_batch_3.bin", 7 * record + 1 + 5, 255);         // red
  set(sub / "data_batch_3.bin", 7 * record + 1 + 1024 + 6, 128);  // green
  set(sub / "data_batch_3.bin", 7 * record + 1 + 3071, 51);       // blue
  const auto data = open_dataset(options(), Split::train);
  ASSERT_EQ(data->size(), 50'000U);
  EXPECT_EQ(data->shape(), (ImageShape{3, 32, 32}));
  std::vector<float> image(3072);
  std::int64_t label = -1;
  data->read(20'007, image, label);
  EXPECT_EQ(label, 6);
  EXPECT_NEAR(image[5], (1 - 0.4914) / 0.2470, 1e-5);
  EXPECT_NEAR(image[1024 + 6], (128 / 255.0 - 0.4822) / 0.2435, 1e-5);
  EXPECT_NEAR(image[3071], (0.2 - 0.4465) / 0.2616, 1e-5);
  EXPECT_NEAR(image[0], -0.4914 / 0.2470, 1e-5);
}

TEST_F(Cifar, SizesAreHonoured) {
  make(folder_ / "test_batch.bin");
  DataOptions some = options();
  some.test_size = 100;
  EXPECT_EQ(open_dataset(some, Split::test)->size(), 100U);
  some.test_size = 10'001;
  EXPECT_NE(error_of<ConfigError>([&] { open_dataset(some, Split::test); }).find("test-size 10001"),
            std::string::npos);
}

TEST_F(Cifar, DamageIsNamed) {
  const fs::path path = folder_ / "test_batch.bin";
  const auto expect = [&](const std::string& what) {
    const std::string message = error();
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  expect("no such file");
  make(path);
  fs::resize_file(path, 9'999 * record);
  expect("truncated");
  fs::resize_file(path, 10'000 * record + 1);
  expect("surplus");
  make(path);
  set(path, 5 * record, 10);
  expect("record 5 has label 10");
  fs::remove(path);
  fs::create_directory(path);
  expect("");
}

TEST(Files, AFolderWhoseNameIsTooLongIsAnErrorThatNamesIt) {
  const std::string folder = "/tmp/" + std::string(300, 'x');
  for (const char* name : {"mnist", "cifar10"}) {
    const std::string error =
        error_of<FileError>([&] { open_dataset({.data = name, .data_dir = folder}, Split::train); });
    EXPECT_NE(error.find(folder), std::string::npos) << error;
    EXPECT_NE(error.find("File name too long"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace sotto
