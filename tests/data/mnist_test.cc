// Sets in the form of MNIST from files made here, whole and damaged in every way.
#include <libdeflate.h>

#include <fstream>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/images/mnist.h"
#include "sotto/core/error.h"
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

Bytes small_images() {
  Bytes images = made_images(examples);
  images.resize(std::size_t{examples} * 16 * 12);
  return images;
}
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

TEST_F(Mnist, PackedByNameAlone) {
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  write(folder_ / "train-labels-idx1-ubyte.gz", idx({examples}, labels));
  expect_error("train-labels-idx1-ubyte.gz", "its name promises gzip data, but its first bytes are others");
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

TEST_F(Mnist, TruncatedGzippedFilesAreErrors) {
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  const Bytes whole = gzip(idx({examples}, labels));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(folder_ / "train-labels-idx1-ubyte.gz", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    expect_error("train-labels-idx1-ubyte.gz", "");
  }
}

TEST_F(Mnist, FlippedBitsNeverGiveOtherData) {
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
  write(folder_ / "train-images-idx3-ubyte", idx({examples, 16, 12}, small_images()));
  const auto data = open_dataset(options(), Split::train);
  EXPECT_EQ(data->shape(), (ImageShape{1, 16, 12}));
  EXPECT_EQ(data->remarks(), (std::vector{(folder_ / "train-images-idx3-ubyte").string() +
                                          ": images of 16x12 pixels; images of mnist as published have 28x28"}));
  std::vector<float> image(16 * 12);
  std::int64_t label = -1;
  data->read(11, image, label);
  EXPECT_EQ(label, 0);
  EXPECT_NEAR(image[5], (small_images()[11 * 16 * 12 + 5] / 255.0 - 0.1307) / 0.3081, 1e-5);
  write(folder_ / "train-images-idx3-ubyte", idx({1, 0, 3}, {}));
  expect_error("train-images-idx3-ubyte", "images of 0x3 pixels");
  write(folder_ / "train-images-idx3-ubyte", idx({1, 1, 5000}, Bytes(5000)));
  expect_error("train-images-idx3-ubyte", "images of 1x5000 pixels");
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

TEST_F(Mnist, SetsHaveTheirOwnNormalisation) {
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

}  // namespace
}  // namespace sotto
