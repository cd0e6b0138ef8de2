#include "app/data/pictures/picture_pack.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "tests/core/helpers.h"
#include "tests/data/picture_files.h"

namespace sotto {
namespace {

using test::error_of;
namespace fs = std::filesystem;

class PicturePack : public testing::Test {
 protected:
  void SetUp() override {
    unsigned seed = 0;
    for (const auto& [split, name, count] : {std::tuple{"train", "asters", 4U},
                                             {"train", "bluebells", 3U},
                                             {"test", "asters", 1U},
                                             {"test", "bluebells", 2U}}) {
      for (unsigned i = 0; i < count; ++i) {
        const auto picture = test::made_picture(30 + 3 * i, 41 - i, 3, ++seed);
        const fs::path path = folder_ / "set" / split / name / std::to_string(i);
        if (i % 2 == 0) test::write_bytes(path.string() + ".jpg", test::jpeg_file(picture, {.orientation = 6}));
        if (i % 2 == 1) test::write_bytes(path.string() + ".png", test::png_file(picture));
      }
    }
  }
  std::optional<PackReport> write(bool strict = false) {
    ThreadPool pool(2);
    return write_picture_pack(folder_ / "set", folder_ / "pack", strict, pool, [](auto, auto) { return true; });
  }
  DataOptions options(const std::string& name) const {
    return {.data = "folder", .data_dir = (folder_ / name).string(), .image_size = 12};
  }
  std::string error(Split split = Split::train) const {
    return error_of<FileError>([&] { open_dataset(options("pack"), split); });
  }
  // All images and labels, also of random parts.
  static std::vector<float> all_of(const Dataset& data) {
    std::vector<float> values, image(data.shape().size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::int64_t label = -1;
      data.read(i, image, label);
      values.insert(values.end(), image.begin(), image.end());
      values.push_back(static_cast<float>(label));
      Philox random(1, Purpose::augment, i);
      data.read_crop(i, random, image, label);
      values.insert(values.end(), image.begin(), image.end());
    }
    return values;
  }
  test::TemporaryFolder folder_;
};

std::vector<char> content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put_content(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST_F(PicturePack, GivesTheImagesOfItsFolder) {
  const auto report = write();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->pictures, (std::array<std::size_t, 2>{7, 3}));
  EXPECT_EQ(report->bytes, fs::file_size(folder_ / "pack"));
  for (const Split split : {Split::train, Split::test}) {
    const auto data = open_dataset(options("pack"), split);
    EXPECT_EQ(data->classes(), 2);
    EXPECT_EQ(all_of(*data), all_of(*open_dataset(options("set"), split)));
  }
  DataOptions some = options("pack");
  some.train_size = 3;
  EXPECT_EQ(open_dataset(some, Split::train)->size(), 3U);
  some.train_size = 8;
  EXPECT_NE(error_of<ConfigError>([&] { open_dataset(some, Split::train); }).find("holds 7 training examples"),
            std::string::npos);
  fs::remove_all(folder_ / "set");
  EXPECT_EQ(open_dataset(options("pack"), Split::test)->size(), 3U);
}

TEST_F(PicturePack, ThreadsDoNotChangeTheBytes) {
  write();
  const std::vector<char> two = content(folder_ / "pack");
  ThreadPool one(1);
  write_picture_pack(folder_ / "set", folder_ / "again", false, one, [](auto, auto) { return true; });
  EXPECT_EQ(content(folder_ / "again"), two);
}

TEST_F(PicturePack, LeavesBrokenPicturesOutAndRemembersThem) {
  const fs::path bad = folder_ / "set/train/asters/0.jpg";
  fs::resize_file(bad, fs::file_size(bad) - 30);
  EXPECT_NE(error_of<FileError>([&] { write(true); }).find(bad.string()), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "pack"));
  const auto report = write();
  ASSERT_EQ(report->broken.size(), 1U);
  EXPECT_EQ(report->broken[0].find(bad.string()), 0U) << report->broken[0];
  const auto data = open_dataset(options("pack"), Split::train);
  EXPECT_EQ(all_of(*data), all_of(*open_dataset(options("set"), Split::train)));
  ASSERT_EQ(data->remarks().size(), 2U);
  EXPECT_EQ(data->remarks()[0].find("1 of 7 pictures of " + (folder_ / "pack").string()), 0U) << data->remarks()[0];
  EXPECT_EQ(data->remarks()[1], report->broken[0]);
  EXPECT_TRUE(open_dataset(options("pack"), Split::test)->remarks().empty());
  DataOptions strict = options("pack");
  strict.strict = true;
  EXPECT_NE(error_of<FileError>([&] { open_dataset(strict, Split::train); }).find(bad.string()), std::string::npos);

  for (const char* name : {"0.jpg", "1.png", "2.jpg"}) fs::resize_file(folder_ / "set/train/bluebells" / name, 20);
  EXPECT_NE(error_of<FileError>([&] { write(); }).find("bluebells: none of the pictures"), std::string::npos);
}

TEST_F(PicturePack, WritesNothingWhenItIsCancelled) {
  ThreadPool pool(1);
  EXPECT_FALSE(write_picture_pack(folder_ / "set", folder_ / "pack", false, pool, [](auto, auto) { return false; }));
  EXPECT_EQ(folder_.entries(), 1U);  // only the folder of pictures
}

TEST_F(PicturePack, EveryTruncationIsAnError) {
  write();
  const std::vector<char> whole = content(folder_ / "pack");
  for (std::size_t n = 0; n < whole.size(); n += n < 40 || n + 600 > whole.size() ? 1 : 131) {
    put_content(folder_ / "pack", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    const std::string said = error();
    EXPECT_NE(said.find((folder_ / "pack").string()), std::string::npos) << n << said;
  }
  put_content(folder_ / "pack", whole);
  std::ofstream(folder_ / "pack", std::ios::app) << "x";
  EXPECT_NE(error().find("its end is damaged"), std::string::npos);
}

TEST_F(PicturePack, EveryFlippedBitIsFound) {
  write();
  const std::vector<char> whole = content(folder_ / "pack");
  std::vector<float> image(3 * 12 * 12);
  for (std::size_t n = 0; n < whole.size(); n += n < 40 || n + 600 > whole.size() ? 1 : 61) {
    std::vector<char> damaged = whole;
    damaged[n] = static_cast<char>(damaged[n] ^ 1 << n % 8);
    put_content(folder_ / "pack", damaged);
    const std::string said = error_of<FileError>([&] {
      for (const Split split : {Split::train, Split::test}) all_of(*open_dataset(options("pack"), split));
    });
    EXPECT_NE(said.find((folder_ / "pack").string()), std::string::npos) << n << said;
  }
}

TEST_F(PicturePack, DamageOfAPictureNamesIt) {
  write();
  std::vector<char> bytes = content(folder_ / "pack");
  bytes[100] = static_cast<char>(bytes[100] + 1);
  put_content(folder_ / "pack", bytes);
  const auto data = open_dataset(options("pack"), Split::train);
  const std::string said = error_of<FileError>([&] { all_of(*data); });
  EXPECT_EQ(said.find((folder_ / "pack").string() + ": train/asters/0.jpg: its checksum is wrong"), 0U) << said;
}

TEST_F(PicturePack, OtherFilesAreNone) {
  put_content(folder_ / "pack", {'h', 'e', 'l', 'l', 'o'});
  EXPECT_NE(error().find("is neither a folder of pictures nor a pack of them"), std::string::npos);
}

}  // namespace
}  // namespace sotto
