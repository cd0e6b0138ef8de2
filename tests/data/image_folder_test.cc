#include "app/data/pictures/picture_set.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "app/data/images/loader.h"
#include "app/data/images/pixels.h"
#include "app/data/pictures/view.h"
#include "sotto/core/error.h"
#include "tests/core/helpers.h"
#include "tests/data/picture_files.h"

namespace sotto {
namespace {

using test::error_of;
using test::Raw;
namespace fs = std::filesystem;

// Each class has one colour, so that a pixel tells the label.
Raw plain(std::size_t width, std::size_t height, std::uint8_t red) {
  Raw raw{width, height, 3, {}};
  for (std::size_t i = 0; i < width * height; ++i) raw.values.insert(raw.values.end(), {red, 100, 200});
  return raw;
}

class ImageFolder : public testing::Test {
 protected:
  // 6 + 4 + 5 pictures to train with, and 2 + 3 for tests.
  void SetUp() override {
    make("train", "asters", 6, 10);
    make("train", "bluebells", 4, 90);
    make("train", "crocuses", 5, 170);
    make("val", "asters", 2, 10);
    make("val", "crocuses", 3, 170);
  }
  void make(const std::string& split, const std::string& name, std::size_t count, std::uint8_t red) {
    for (std::size_t i = 0; i < count; ++i) {
      const Raw picture = plain(40 + i, 33 + 2 * i, red);
      const fs::path path = folder_ / split / name / ("picture" + std::to_string(i));
      if (i % 2 == 0) test::write_bytes(path.string() + ".JPEG", test::jpeg_file(picture));
      if (i % 2 == 1) test::write_bytes(path.string() + ".png", test::png_file(picture));
    }
  }
  void write(const std::string& path, std::size_t bytes) {
    test::write_bytes(folder_ / path, std::vector<std::byte>(bytes, std::byte{'x'}));
  }
  void truncate(const std::string& path) { fs::resize_file(folder_ / path, fs::file_size(folder_ / path) - 10); }
  DataOptions options() const {
    return {.data = "folder", .data_dir = folder_.path().string(), .image_size = 16, .data_threads = 2};
  }
  std::unique_ptr<Dataset> open(Split split = Split::train) const { return open_dataset(options(), split); }
  void expect_error(const std::string& path, const std::string& what, Split split = Split::train) const {
    const std::string error = error_of<FileError>([&] { open(split); });
    EXPECT_NE(error.find((folder_ / path).string()), std::string::npos) << error;
    EXPECT_NE(error.find(what), std::string::npos) << error;
  }
  test::TemporaryFolder folder_;
};

std::vector<std::int64_t> labels_of(const Dataset& data) {
  std::vector<std::int64_t> labels;
  std::vector<float> image(data.shape().size());
  for (std::size_t i = 0; i < data.size(); ++i) data.read(i, image, labels.emplace_back());
  return labels;
}

TEST_F(ImageFolder, ClassesAreLabelsAndTakeTurns) {
  const auto train = open(), test = open(Split::test);
  EXPECT_EQ(train->classes(), 3);
  EXPECT_EQ(test->classes(), 3);
  EXPECT_EQ(train->shape(), (ImageShape{3, 16, 16}));
  EXPECT_EQ(labels_of(*train), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 2, 0}));
  EXPECT_EQ(labels_of(*test), (std::vector<std::int64_t>{0, 2, 0, 2, 2}));
  EXPECT_TRUE(train->remarks().empty());
}

TEST_F(ImageFolder, PixelsAreNormalisedAsForImageNet) {
  const auto data = open();
  std::vector<float> image(3 * 16 * 16);
  for (std::size_t i = 0; i < data->size(); ++i) {
    std::int64_t label = -1;
    data->read(i, image, label);
    const double red = 10 + 80.0 * static_cast<double>(label);
    for (std::size_t p = 0; p < 256; ++p) {
      ASSERT_NEAR(image[p], (red / 255 - 0.485) / 0.229, 0.05);  // JPEG is not exact
      ASSERT_NEAR(image[256 + p], (100 / 255.0 - 0.456) / 0.224, 0.05);
      ASSERT_NEAR(image[512 + p], (200 / 255.0 - 0.406) / 0.225, 0.05);
    }
  }
  EXPECT_FLOAT_EQ(data->black()[0], -0.485F / 0.229F);
}

TEST_F(ImageFolder, ReadsTheMiddleAndCropsWhatIsDrawn) {
  const Raw picture = test::made_picture(61, 47);
  const auto file = test::jpeg_file(picture);
  test::write_bytes(folder_ / "train" / "asters" / "a.jpg", file);  // the first one
  const auto data = open();
  const auto expect = [&](const View& view, const std::vector<float>& image) {
    ViewReader reader;
    const auto opened = open_picture(file);
    std::vector<float> wanted(image.size());
    Normaliser({3, 16, 16}, imagenet_normalisation).apply_to_pixels(reader.read(*opened, view), wanted);
    EXPECT_EQ(image, wanted);
  };
  std::vector<float> image(3 * 16 * 16);
  std::int64_t label = -1;
  data->read(0, image, label);
  expect(middle_view(61, 47, 16), image);
  for (std::uint64_t i = 0; i < 5; ++i) {
    Philox random(1, Purpose::augment, i), same(1, Purpose::augment, i);
    data->read_crop(0, random, image, label);
    expect(random_view(61, 47, 16, same), image);
  }
  EXPECT_THROW(data->read(data->size(), image, label), std::out_of_range);
}

TEST_F(ImageFolder, SizesAreHonoured) {
  DataOptions some = options();
  some.train_size = 4;
  EXPECT_EQ(labels_of(*open_dataset(some, Split::train)), (std::vector<std::int64_t>{0, 1, 2, 0}));
  some.train_size = 16;
  EXPECT_NE(error_of<ConfigError>([&] { open_dataset(some, Split::train); }).find("holds 15 training examples"),
            std::string::npos);
  some.image_size.reset();
  some.train_size = 1;
  EXPECT_EQ(open_dataset(some, Split::train)->shape(), (ImageShape{3, 224, 224}));
}

TEST_F(ImageFolder, BrokenPicturesAreNamedCountedAndLeftOut) {
  truncate("train/asters/picture0.JPEG");
  truncate("train/bluebells/picture1.png");
  write("train/crocuses/zero.jpg", 0);
  write("val/asters/text.png", 30);
  const auto train = open(), test = open(Split::test);
  EXPECT_EQ(labels_of(*train), (std::vector<std::int64_t>{1, 2, 0, 2, 0, 1, 2, 0, 1, 2, 0, 2, 0}));
  const auto remarks = train->remarks();
  ASSERT_EQ(remarks.size(), 4U);
  EXPECT_EQ(spelled(remarks[0]), "3 of 16 pictures of " + (folder_ / "train").string() +
                                     " cannot be decoded and are left out; with strict they are an error");
  EXPECT_EQ(remarks[1], (folder_ / "train/asters/picture0.JPEG").string() + ": Premature end of JPEG file");
  EXPECT_EQ(remarks[2], (folder_ / "train/bluebells/picture1.png").string() + ": truncated");
  EXPECT_EQ(remarks[3], (folder_ / "train/crocuses/zero.jpg").string() + ": it is empty");
  EXPECT_EQ(test->size(), 5U);
  ASSERT_EQ(test->remarks().size(), 2U);
  EXPECT_NE(test->remarks()[1].find("it is neither JPEG nor PNG"), std::string::npos);

  DataOptions strict = options();
  strict.strict = true;
  const std::string error = error_of<FileError>([&] { open_dataset(strict, Split::train); });
  EXPECT_NE(error.find((folder_ / "train/asters/picture0.JPEG").string()), std::string::npos) << error;
  EXPECT_NE(error.find("one of 3 pictures"), std::string::npos) << error;
}

TEST_F(ImageFolder, OfManyBrokenPicturesTheFirstAreNamed) {
  for (int i = 0; i < 30; ++i) write("train/asters/x" + std::to_string(100 + i) + ".jpg", 5);
  const auto remarks = open()->remarks();
  ASSERT_EQ(remarks.size(), 22U);
  EXPECT_EQ(remarks.front().substr(0, 8), "30 of 45");
  EXPECT_EQ(remarks.back(), "and 10 more");
}

TEST_F(ImageFolder, ASizeCountsReadablePicturesAlone) {
  truncate("train/asters/picture0.JPEG");
  DataOptions some = options();
  some.train_size = 5;
  EXPECT_EQ(labels_of(*open_dataset(some, Split::train)), (std::vector<std::int64_t>{1, 2, 0, 1, 2}));
  some.train_size = 15;
  EXPECT_NE(error_of<ConfigError>([&] { open_dataset(some, Split::train); }).find("holds 14 training examples"),
            std::string::npos);
}

TEST_F(ImageFolder, WhatDoesNotFitIsNamed) {
  fs::create_directory(folder_ / "val/bluebells");
  expect_error("val/bluebells", "this class has no pictures", Split::test);
  fs::remove(folder_ / "val/bluebells");
  write("val/astres/a.jpg", 4);
  expect_error("val/astres", "has no class of this name: unknown class `astres`", Split::test);
  expect_error("val/astres", "asters", Split::test);
  fs::remove_all(folder_ / "val/astres");
  write("train/asters/notes.txt", 4);
  expect_error("train/asters/notes.txt", "is no picture");
  fs::remove(folder_ / "train/asters/notes.txt");
  fs::create_directory(folder_ / "train/asters/more.jpg");
  expect_error("train/asters/more.jpg", "is a folder, and not a picture");
  fs::remove(folder_ / "train/asters/more.jpg");
  fs::create_symlink("nowhere.jpg", folder_ / "train/asters/link.jpg");
  expect_error("train/asters/link.jpg", "is a link that leads to no readable file");
  fs::remove(folder_ / "train/asters/link.jpg");
  write("train/README", 4);
  expect_error("train/README", "is not in the folder of a class");
  expect_error("train/README", "is not in the folder of a class", Split::test);
  fs::remove(folder_ / "train/README");
  write(".listing", 4);
  write("train/.listing", 4);
  write("train/asters/.listing", 4);
  write("LICENSE", 4);
  EXPECT_EQ(open()->size(), 15U);
  for (const char* name : {"picture0.JPEG", "picture1.png", "picture2.JPEG", "picture3.png"}) {
    truncate(std::string("train/bluebells/") + name);
  }
  expect_error("train/bluebells", "none of the pictures of this class can be decoded");
}

TEST_F(ImageFolder, MissingFolders) {
  fs::rename(folder_ / "val", folder_ / "test");
  EXPECT_EQ(open(Split::test)->size(), 5U);
  fs::remove_all(folder_ / "test");
  expect_error("val", "there is no such folder, and no " + (folder_ / "test").string(), Split::test);
  fs::remove_all(folder_ / "train");
  expect_error("train", "there is no such folder; pictures are in");
  fs::create_directory(folder_ / "train");
  expect_error("train", "holds no folders of classes");
  const std::string none = error_of<ConfigError>([&] { open_dataset({.data = "folder"}, Split::train); });
  EXPECT_NE(none.find("data-dir"), std::string::npos) << none;
}

TEST_F(ImageFolder, APictureThatChangesIsAnError) {
  const auto data = open();
  truncate("train/asters/picture0.JPEG");
  std::vector<float> image(3 * 16 * 16);
  std::int64_t label = -1;
  const std::string error = error_of<FileError>([&] { data->read(0, image, label); });
  EXPECT_NE(error.find((folder_ / "train/asters/picture0.JPEG").string()), std::string::npos) << error;
  fs::remove(folder_ / "train/asters/picture0.JPEG");
  EXPECT_NE(error_of<FileError>([&] { data->read(0, image, label); }).find("picture0.JPEG"), std::string::npos);
}

// The crop of an image depends on seed, epoch and example only, however many threads and ranks there are.
TEST_F(ImageFolder, CropsDependOnNeitherThreadsNorRanks) {
  for (int i = 0; i < 3; ++i) {
    test::write_bytes(folder_ / "train" / "asters" / ("more" + std::to_string(i) + ".jpg"),
                      test::jpeg_file(test::made_picture(70, 50, 3, static_cast<unsigned>(i + 1))));
  }
  const auto data = open();
  const Augment augment = read_augment("auto", *data);
  EXPECT_EQ(augment, Augment::resized_crop);
  Loader one(*data, {.order = {.seed = 3, .batch = 8}, .augment = augment});
  Loader three(*data, {.order = {.seed = 3, .batch = 8}, .augment = augment, .threads = 3});
  Loader second(*data, {.order = {.seed = 3, .rank = 1, .ranks = 2, .batch = 4}, .augment = augment, .threads = 2});
  std::vector<std::uint32_t> order(18);
  std::vector<float> image(3 * 16 * 16);
  for (const std::uint64_t step : {0, 1, 2, 3, 0}) {
    const Batch batch = one.at(step);
    const Batch same = three.at(step), half = second.at(step);
    EXPECT_TRUE(std::ranges::equal(batch.images, same.images));
    EXPECT_TRUE(std::ranges::equal(batch.labels, same.labels));
    EXPECT_TRUE(std::ranges::equal(batch.images.subspan(4 * image.size()), half.images));
    shuffle(order, 3, step / 2);
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint32_t example = order[step % 2 * 8 + i];
      Philox random(3, Purpose::augment, (step / 2) << 32U | example);
      std::int64_t label = -1;
      data->read_crop(example, random, image, label);
      EXPECT_EQ(batch.labels[i], label);
      EXPECT_TRUE(std::ranges::equal(batch.images.subspan(i * image.size(), image.size()), image));
    }
  }
}

TEST(ReadAugment, ResizedCropIsForPicturesInFiles) {
  const auto digits = open_dataset({.train_size = 4, .test_size = 1}, Split::train);
  EXPECT_EQ(read_augment("auto", *digits), Augment::none);
  EXPECT_EQ(read_augment("none", *digits), Augment::none);
  EXPECT_EQ(read_augment("crop-flip", *digits), Augment::crop_flip);
  EXPECT_NE(error_of<ConfigError>([&] { read_augment("resized-crop", *digits); }).find("augment resized-crop"),
            std::string::npos);
  const std::string size =
      error_of<ConfigError>([] { open_dataset({.data = "digits", .image_size = 224}, Split::train); });
  EXPECT_NE(size.find("image-size 224: the images of these data have 28x28 pixels"), std::string::npos) << size;
}

}  // namespace
}  // namespace sotto
