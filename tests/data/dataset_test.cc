#include "app/data/images/dataset.h"

#include <vector>

#include "sotto/core/error.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

TEST(DatasetTable, EveryMadeSetOpensAndReads) {
  for (const DatasetEntry& entry : dataset_table()) {
    if (!entry.files.empty()) continue;
    const DataOptions options{.data = std::string(entry.name), .train_size = 7, .test_size = 5};
    const auto train = open_dataset(options, Split::train);
    const auto test = open_dataset(options, Split::test);
    EXPECT_EQ(train->size(), 7U);
    EXPECT_EQ(test->size(), 5U);
    EXPECT_EQ(train->classes(), 10);
    std::vector<float> image(train->shape().size());
    std::int64_t label = -1;
    train->read(6, image, label);
    EXPECT_GE(label, 0);
    EXPECT_LT(label, 10);
    EXPECT_THROW(train->read(7, image, label), std::out_of_range);
  }
}

TEST(DatasetTable, UsualSizes) {
  const DataOptions options{.data = "digits"};
  EXPECT_EQ(open_dataset(options, Split::train)->size(), 60'000U);
  EXPECT_EQ(open_dataset(options, Split::test)->size(), 10'000U);
}

TEST(OpenDataset, NamesWhatIsWrong) {
  const auto open = [](const DataOptions& options) {
    return error_of<ConfigError>([&] { open_dataset(options, Split::train); });
  };
  const std::string unknown = open({.data = "mnits"});
  EXPECT_NE(unknown.find("data"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("mnist"), std::string::npos) << unknown;
  const std::string missing = open({.data = "mnist"});
  EXPECT_NE(missing.find("data-dir"), std::string::npos) << missing;
  const std::string unused = open({.data = "digits", .data_dir = "/somewhere"});
  EXPECT_NE(unused.find("/somewhere"), std::string::npos) << unused;
  const std::string seed = open({.data = "mnist", .data_dir = "/somewhere", .data_seed = 2});
  EXPECT_NE(seed.find("data-seed 2"), std::string::npos) << seed;
  EXPECT_NE(open({.data = "digits", .strict = true}).find("strict: is for pictures in files"), std::string::npos);
  const std::string size = open({.data = "digits", .train_size = std::int64_t{1} << 40});
  EXPECT_NE(size.find("train-size"), std::string::npos) << size;
}

}  // namespace
}  // namespace sotto
