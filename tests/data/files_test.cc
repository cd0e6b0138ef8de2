// Reads files in the formats of MNIST and CIFAR that are made here, whole and damaged in every way.
#include <libdeflate.h>

#include <fstream>
#include <memory>
#include <tuple>
#include <utility>
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
  // Expects that opening the set throws a FileError that names `file` and says `what` is wrong.
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
  // A few bits mean nothing: the time in the header, the padding of the last byte.
  EXPECT_GE(errors, whole.size() - 10);
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

TEST_F(Mnist, SetsOfTheSameFormHaveTheirOwnNormalisation) {
  for (const auto& [name, mean, deviation] :
       {std::tuple{"fashion-mnist", 0.2860, 0.3530}, std::tuple{"kmnist", 0.1918, 0.3483}}) {
    const auto data = open_dataset({.data = name, .data_dir = folder_.path().string()}, Split::train);
    EXPECT_EQ(data->classes(), 10);
    std::vector<float> image(784);
    std::int64_t label = -1;
    data->read(5, image, label);
    EXPECT_EQ(label, 9);
    EXPECT_NEAR(image[9], (made_images(examples)[5 * 784 + 9] / 255.0 - mean) / deviation, 1e-5) << name;
  }
}

// As in torchvision's EMNIST, images are not transposed, and labels of letters are not shifted to begin at 0.
TEST(Emnist, EachSplitHasItsFilesAndClasses) {
  const TemporaryFolder folder;
  for (const auto& [split, classes] : {std::pair<std::string, std::int64_t>{"balanced", 47},
                                       {"byclass", 62},
                                       {"bymerge", 47},
                                       {"digits", 10},
                                       {"mnist", 10},
                                       {"letters", 27}}) {
    const auto top = static_cast<std::uint8_t>(classes - 1);
    const std::string stem = "emnist-" + split;
    write(folder / (stem + "-test-images-idx3-ubyte.gz"), gzip(idx({3, 28, 28}, made_images(3))));
    write(folder / (stem + "-test-labels-idx1-ubyte.gz"), gzip(idx({3}, {1, top, 1})));
    const DataOptions options{.data = stem, .data_dir = folder.path().string()};
    const auto data = open_dataset(options, Split::test);
    EXPECT_EQ(data->classes(), classes);
    std::vector<float> image(784);
    std::int64_t label = -1;
    data->read(1, image, label);
    EXPECT_EQ(label, top);
    EXPECT_NEAR(image[30], (made_images(3)[784 + 30] / 255.0 - 0.1751) / 0.3332, 1e-5);

    const auto expect_error = [&](const Bytes& damaged, const std::string& what) {
      write(folder / (stem + "-test-labels-idx1-ubyte.gz"), gzip(idx({3}, damaged)));
      const std::string error = error_of<FileError>([&] { open_dataset(options, Split::test); });
      EXPECT_NE(error.find(what), std::string::npos) << error;
    };
    expect_error({1, 2, static_cast<std::uint8_t>(classes)}, "label 2 is " + std::to_string(classes));
    if (split == "letters") expect_error({0, 2, 1}, "label 0 is 0, which is not in 1..26");
    const std::string missing = error_of<FileError>([&] { open_dataset(options, Split::train); });
    EXPECT_NE(missing.find(stem + "-train-images-idx3-ubyte"), std::string::npos) << missing;
  }
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
  EXPECT_NE(error_of<ConfigError>([&] { open_dataset(some, Split::test); }).find("test-size 10001"), std::string::npos);
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

TEST_F(Cifar, OfAHundredClassesHasTwoLabels) {
  constexpr std::size_t two = 2 + 3072;
  const fs::path sub = folder_ / "cifar-100-binary";
  fs::create_directory(sub);
  const fs::path path = sub / "test.bin";
  write(path, {});
  fs::resize_file(path, 10'000 * two);
  set(path, 7 * two, 19);
  set(path, 7 * two + 1, 99);
  set(path, 7 * two + 2 + 5, 255);         // red
  set(path, 7 * two + 2 + 1024 + 6, 128);  // green
  set(path, 7 * two + 2 + 3071, 51);       // blue
  const DataOptions hundred{.data = "cifar100", .data_dir = folder_.path().string()};
  const auto data = open_dataset(hundred, Split::test);
  ASSERT_EQ(data->size(), 10'000U);
  EXPECT_EQ(data->classes(), 100);
  std::vector<float> image(3072);
  std::int64_t label = -1;
  data->read(7, image, label);
  EXPECT_EQ(label, 99);
  EXPECT_NEAR(image[5], (1 - 0.5071) / 0.2673, 1e-5);
  EXPECT_NEAR(image[1024 + 6], (128 / 255.0 - 0.4865) / 0.2564, 1e-5);
  EXPECT_NEAR(image[3071], (0.2 - 0.4409) / 0.2762, 1e-5);

  const auto expect = [&](const std::string& what) {
    const std::string message = error_of<FileError>([&] { open_dataset(hundred, Split::test); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  set(path, 7 * two, 20);
  expect("record 7 has coarse label 20, which is not in 0..19");
  set(path, 7 * two, 0);
  set(path, 9'999 * two + 1, 100);
  expect("record 9999 has label 100, which is not in 0..99");
  fs::resize_file(path, 10'000 * record);  // as long as one of CIFAR-10
  expect("truncated");
  fs::resize_file(path, 10'000 * two + 1);
  expect("surplus");
}

TEST_F(Cifar, OfAHundredClassesTrainsOnOneFile) {
  const fs::path path = folder_ / "train.bin";
  write(path, {});
  fs::resize_file(path, 50'000 * (2 + 3072));
  set(path, 49'999 * (2 + 3072) + 1, 42);
  const auto data = open_dataset({.data = "cifar100", .data_dir = folder_.path().string()}, Split::train);
  ASSERT_EQ(data->size(), 50'000U);
  std::vector<float> image(3072);
  std::int64_t label = -1;
  data->read(49'999, image, label);
  EXPECT_EQ(label, 42);
}

TEST(Files, AFolderWhoseNameIsTooLongIsAnErrorThatNamesIt) {
  const std::string folder = "/tmp/" + std::string(300, 'x');
  for (const char* name : {"mnist", "emnist-letters", "cifar10", "cifar100"}) {
    const std::string error =
        error_of<FileError>([&] { open_dataset({.data = name, .data_dir = folder}, Split::train); });
    EXPECT_NE(error.find(folder), std::string::npos) << error;
    EXPECT_NE(error.find("File name too long"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace sotto
