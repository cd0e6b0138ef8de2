// Sets in the form of CIFAR from files made here, whole and damaged.
#include <fstream>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/core/error.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

class Cifar : public testing::Test {
 protected:
  static constexpr std::size_t record = 1 + 3072;
  // Zeros, without using the disk for them.
  static void make(const fs::path& path, std::size_t bytes = 10'000 * record) {
    std::ofstream file(path);
    ASSERT_TRUE(file.flush());
    fs::resize_file(path, bytes);
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
  fs::resize_file(path, 10'000 * record - 1);
  expect("truncated: 30729999 bytes, which are no whole number of records of 3073 (a label and 3x32x32 pixels)");
  fs::resize_file(path, 0);
  expect("truncated: 0 bytes");
  make(path);
  set(path, 5 * record, 10);
  expect("record 5 has label 10");
  fs::remove(path);
  fs::create_directory(path);
  expect("");
}

TEST_F(Cifar, MayHaveAnotherNumberOfRecords) {
  for (const char* n : {"1", "2", "3", "4", "5"}) make(folder_ / (std::string("data_batch_") + n + ".bin"), 7 * record);
  set(folder_ / "data_batch_4.bin", 6 * record, 3);
  const auto data = open_dataset(options(), Split::train);
  ASSERT_EQ(data->size(), 35U);
  EXPECT_EQ(data->label(27), 3);
  EXPECT_EQ(data->remarks(),
            std::vector{folder_.path().string() + ": 35 training examples, and CIFAR-10 as published has 50000"});
  make(folder_ / "test_batch.bin");
  EXPECT_TRUE(open_dataset(options(), Split::test)->remarks().empty());
}

TEST_F(Cifar, OfAHundredClassesHasTwoLabels) {
  constexpr std::size_t two = 2 + 3072;
  const fs::path sub = folder_ / "cifar-100-binary";
  fs::create_directory(sub);
  const fs::path path = sub / "test.bin";
  make(path, 10'000 * two);
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
}

TEST_F(Cifar, OfAHundredClassesTrainsOnOneFile) {
  const fs::path path = folder_ / "train.bin";
  make(path, 50'000 * (2 + 3072));
  set(path, 49'999 * (2 + 3072) + 1, 42);
  const auto data = open_dataset({.data = "cifar100", .data_dir = folder_.path().string()}, Split::train);
  ASSERT_EQ(data->size(), 50'000U);
  std::vector<float> image(3072);
  std::int64_t label = -1;
  data->read(49'999, image, label);
  EXPECT_EQ(label, 42);
}

TEST(Files, ATooLongFolderNameIsAnError) {
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
