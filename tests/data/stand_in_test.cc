// Files that stand in for real data sets are read as those are.
#include "app/data/made/stand_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

class StandIn : public testing::Test {
 protected:
  DataOptions make(std::string_view name, std::int64_t train, std::int64_t test, std::uint64_t seed = 1) {
    DataOptions options{.data = std::string(name),
                        .data_dir = (folder_ / (std::string(name) + std::to_string(seed))).string()};
    DataOptions making = options;
    making.train_size = train;
    making.test_size = test;
    making.data_seed = static_cast<std::int64_t>(seed);
    written_ = make_stand_in(making);
    return options;
  }
  test::TemporaryFolder folder_;
  std::vector<std::filesystem::path> written_;
};

bool is_of(std::string_view name, const std::vector<std::string_view>& names) {
  return std::ranges::count(names, name) > 0;
}

TEST_F(StandIn, OfImagesHasAllClasses) {
  for (const std::string_view name : stand_in_names()) {
    if (!is_of(name, dataset_table().names()) || name.starts_with("cifar")) continue;
    const DataOptions options = make(name, 600, 20);
    EXPECT_EQ(written_.size(), 4U);
    const auto train = open_dataset(options, Split::train), test = open_dataset(options, Split::test);
    EXPECT_EQ(train->size(), 600U);
    EXPECT_EQ(test->size(), 20U);
    std::set<std::int64_t> labels;
    for (std::size_t i = 0; i < train->size(); ++i) labels.insert(train->label(i));
    const std::size_t wanted = static_cast<std::size_t>(train->classes()) - (name == "emnist-letters" ? 1 : 0);
    EXPECT_EQ(labels.size(), wanted) << name;
  }
}

TEST_F(StandIn, OfCifarHasAnySize) {
  const DataOptions ten = make("cifar10", 23, 7);
  EXPECT_EQ(written_.size(), 6U);
  const auto train = open_dataset(ten, Split::train), made = open_dataset({.data = "made-cifar"}, Split::train);
  ASSERT_EQ(train->size(), 23U);
  EXPECT_EQ(open_dataset(ten, Split::test)->size(), 7U);
  std::vector<float> image(3 * 32 * 32), wanted(image.size());
  std::int64_t label = 0, wanted_label = 0;
  for (std::size_t i = 0; i < 23; ++i) {
    train->read(i, image, label);
    made->read(i, wanted, wanted_label);
    EXPECT_EQ(image, wanted) << i;
    EXPECT_EQ(label, wanted_label);
  }
  EXPECT_EQ(open_dataset(make("cifar100", 11, 3), Split::train)->size(), 11U);
}

TEST_F(StandIn, OfMnistIsTheMadeDigits) {
  const auto files = open_dataset(make("mnist", 40, 10), Split::test);
  const auto made = open_dataset({.data = "digits", .test_size = 10}, Split::test);
  std::vector<float> image(28 * 28), wanted(28 * 28);
  std::int64_t label = 0, wanted_label = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    files->read(i, image, label);
    made->read(i, wanted, wanted_label);
    EXPECT_EQ(image, wanted);
    EXPECT_EQ(label, wanted_label);
  }
}

// The place of a mark in the first rows, which are empty otherwise, tells the tens of a class.
TEST_F(StandIn, MarksTheTensOfClasses) {
  const auto data = open_dataset(make("emnist-byclass", 300, 10), Split::train);
  std::vector<float> image(28 * 28);
  for (std::size_t i = 0; i < data->size(); ++i) {
    std::int64_t label = 0;
    data->read(i, image, label);
    for (const std::size_t row : {0, 1}) {
      const auto begin = image.begin() + static_cast<std::ptrdiff_t>(row * 28);
      EXPECT_EQ(std::max_element(begin, begin + 28) - begin, label / 10 * 28 / 10);
      EXPECT_EQ(std::count(begin, begin + 28, data->black()[0]), 26);
    }
  }
}

TEST_F(StandIn, OfRowsIsTheMadeRows) {
  const auto files = open_rows(make("libsvm", 50, 20), Split::train);
  const auto made = open_rows({.data = "made-rows", .train_size = 50}, Split::train);
  EXPECT_EQ(files->columns, made->columns);
  EXPECT_EQ(files->values, made->values) << "to the last bit";
  EXPECT_EQ(files->labels, made->labels);
  const auto table = open_rows(make("csv", 50, 20), Split::train);
  EXPECT_EQ(table->labels, made->labels);
  EXPECT_EQ(table->features, 32U);
  for (std::size_t i = 0; i < 50; ++i) {
    const Row row = table->at(i), all = made->at(i);
    const std::size_t first =
        static_cast<std::size_t>(std::ranges::lower_bound(all.columns, 32U) - all.columns.begin());
    EXPECT_TRUE(std::ranges::equal(row.columns, all.columns.first(first)));
    EXPECT_TRUE(std::ranges::equal(row.values, all.values.first(first)));
  }
}

TEST_F(StandIn, OfTextIsTheMadeText) {
  const DataOptions options = make("text", 1000, 300);
  const auto files = open_text(options, Split::train);
  const auto made = open_text({.data = "made-text"}, Split::train);
  EXPECT_TRUE(std::equal(files->tokens.begin(), files->tokens.end(), made->tokens.begin()));
  EXPECT_EQ(files->tokens.size(), 1000U);
  EXPECT_EQ(open_text(options, Split::test)->tokens.size(), 300U);
}

TEST_F(StandIn, OfPairsHasAVocabulary) {
  const DataOptions options = make("parallel", 100, 20);
  EXPECT_EQ(written_.size(), 5U);
  const auto files = open_pairs(options, Split::test);
  const auto made = open_pairs({.data = "made-pairs", .test_size = 20}, Split::test);
  EXPECT_EQ(files->references, made->references);
  EXPECT_EQ(files->vocabulary->size(), 64);
  for (std::size_t i = 0; i < 20; ++i) {
    const std::vector<std::int64_t> tokens(files->targets[i].begin(), files->targets[i].end());
    EXPECT_EQ(files->vocabulary->decode(tokens), files->references[i]);
  }
}

TEST_F(StandIn, DependsOnTheSeedAlone) {
  for (const std::string_view name : {"mnist", "libsvm", "csv", "text", "parallel"}) {
    std::vector<std::vector<std::byte>> first, again, other;
    make(name, 40, 20, 1);
    for (const auto& path : written_) first.push_back(read_file(path));
    std::filesystem::remove_all(written_.front().parent_path());
    make(name, 40, 20, 1);
    for (const auto& path : written_) again.push_back(read_file(path));
    make(name, 40, 20, 2);
    for (const auto& path : written_) other.push_back(read_file(path));
    EXPECT_EQ(first, again) << name;
    EXPECT_NE(first, other) << name;
  }
}

TEST_F(StandIn, OverwritesNothing) {
  make("text", 1000, 300);
  write_file_atomic(written_[0], std::string_view("mine"));
  std::filesystem::remove(written_[1]);
  EXPECT_NE(error_of<FileError>([&] { make("text", 1000, 300); }).find("train.txt: is there already"),
            std::string::npos);
  EXPECT_EQ(read_text(folder_ / "text1" / "train.txt"), "mine");
}

TEST_F(StandIn, RefusesWhatHasNoFiles) {
  const auto refusal = [&](std::string_view name, std::int64_t train = 10) {
    return error_of<ConfigError>([&] { make(name, train, 0); });
  };
  EXPECT_NE(refusal("digits").find("no files are made: unknown data set `digits`"), std::string::npos);
  EXPECT_NE(refusal("minst").find("did you mean `mnist`?"), std::string::npos);
  EXPECT_NE(refusal("cifar10", 4).find("train-size 4: there are 5 files, and each has an image"), std::string::npos);
  EXPECT_NE(refusal("text", 2'000'000).find("train-size 2000000: the made text, in bytes, holds 1000000"),
            std::string::npos);
}

}  // namespace
}  // namespace sotto
