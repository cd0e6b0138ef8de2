#include "app/data/rows/rows.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

std::string text_of(const Rows& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row = rows.at(i);
    text += std::to_string(static_cast<int>(row.label)) + ":";
    for (std::size_t k = 0; k < row.columns.size(); ++k) {
      text += " " + std::to_string(row.columns[k]) + "=" + std::to_string(static_cast<int>(row.values[k]));
    }
    text += ";";
  }
  return text;
}

class RowFiles : public testing::Test {
 protected:
  void write(std::string_view name, std::string_view content) { write_file_atomic(folder_ / name, content); }
  Rows open(std::string_view data, Split split, std::string_view file = "", std::int64_t size = 0) {
    DataOptions options{.data = std::string(data), .data_dir = (folder_ / file).string()};
    options.train_size = options.test_size = size;
    return *open_rows(options, split);
  }
  std::string error(std::string_view data, std::string_view content) {
    write("file", content);
    return error_of<FileError>([&] { open(data, Split::train, "file"); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(RowFiles, LibsvmRows) {
  write("train.libsvm", "# two rows and one without values\n-1 1:2 3:-4  # the first\n+1\t2:5\r\n7\n\n");
  write("test.libsvm", "9 12:1\n");
  const Rows train = open("libsvm", Split::train), test = open("libsvm", Split::test);
  EXPECT_EQ(text_of(train), "-1: 0=2 2=-4;1: 1=5;7:;");
  EXPECT_EQ(text_of(test), "9: 11=1;");
  for (const Rows* rows : {&train, &test}) {
    EXPECT_EQ(rows->features, 12U) << "of both";
    ASSERT_EQ(rows->seen_labels.size(), 3U) << "of both, and no more";
    EXPECT_EQ(rows->seen_labels[1].label, 1);
    EXPECT_EQ(rows->seen_labels[1].place, (folder_ / "train.libsvm").string() + ":3");
  }
  EXPECT_EQ(text_of(open("libsvm", Split::train, "", 1)), "-1: 0=2 2=-4;");
  EXPECT_EQ(open("libsvm", Split::train, "", 1).features, 12U);
}

TEST_F(RowFiles, MayBeginWithAByteOrderMark) {
  write("file", "\xEF\xBB\xBF-1 1:2\n1 2:5\n");
  write("file.t", "7 1:1\n");
  EXPECT_EQ(text_of(open("libsvm", Split::train, "file")), "-1: 0=2;1: 1=5;");
  EXPECT_NE(error("libsvm", "-1 1:2\n\xEF\xBB\xBF 1 2:5\n").find("file:2"), std::string::npos);
}

TEST_F(RowFiles, CsvRows) {
  write("train.csv", "a, \"Target\",b\n1,5,0\n2, 6 ,3\n\r\n \n");
  write("test.csv", "A,target,b\n1,5,2\n3,6,4\n");
  EXPECT_EQ(text_of(open("csv", Split::train)), "5: 0=1;6: 0=2 1=3;");
  EXPECT_EQ(text_of(open("csv", Split::test)), "5: 0=1 1=2;6: 0=3 1=4;");
  const auto refusal = [&](const std::string& test) {
    write("test.csv", test);
    return error_of<FileError>([&] { open("csv", Split::train); });
  };
  EXPECT_NE(refusal("a,b\n1,2\n").find("test.csv: it has the columns `a (label),b`, and "), std::string::npos);
  EXPECT_NE(refusal("1,2,3\n").find("it has no line of names and 3 columns, and "), std::string::npos);
  EXPECT_NE(refusal("b,target,a\n1,2,3\n").find("`b,target (label),a`"), std::string::npos);
  write("train.csv", "1,5,0\n");
  write("test.csv", "2,6,3\n");
  EXPECT_EQ(text_of(open("csv", Split::test)), "2: 0=6 1=3;") << "without names the label comes first";
  write("file", "SalePrice,1stFlrSF,info\n5,1,2\n+6,3,4\n");
  EXPECT_EQ(text_of(open("csv", Split::train, "file", 2)), "5: 0=1 1=2;6: 0=3 1=4;");
  write("train.csv", "\"target\",\"a\"\n\"5\",\"4\"\n6, \"-1\"\n");
  write("test.csv", "target,a\n5,2\n");
  EXPECT_EQ(text_of(open("csv", Split::train)), "5: 0=4;6: 0=-1;") << "numbers may be quoted, as names";
}

TEST_F(RowFiles, NamesOfColumnsMayBeNumbers) {
  write("file", "0,label,1\n" + std::string("5,1,1e-300\n5,-1,-1e-999\n") + "5,1,1\n");
  EXPECT_EQ(text_of(open("csv", Split::train, "file", 3)), "1: 0=5;-1: 0=5;1: 0=5 1=1;")
      << "and tiny numbers are zeros";
}

TEST_F(RowFiles, ALineOfColumnNumbersIsRefused) {
  EXPECT_TRUE(error("csv", "0,1,2,3\n7,8,9,9\n").find("file:1: these numbers from 0 to 3 count the columns") !=
              std::string::npos);
  EXPECT_TRUE(error("csv", "\"0\",\"1\",\"2\",\"3\"\n7,8,9,9\n").find("file:1: these") != std::string::npos);
  write("file", "0,1,2,4\n1,8,9,9\n");
  EXPECT_EQ(text_of(open("csv", Split::train, "file", 2)), "0: 0=1 1=2 2=4;1: 0=8 1=9 2=9;");
}

TEST_F(RowFiles, TellOfColumnsThatMayRepeatTheLabel) {
  write("file", "a,label,target\n1,2,2\n");
  write("file.t", "a,label,target\n1,2,2\n");
  EXPECT_EQ(open("csv", Split::test, "file").remark,
            (folder_ / "file.t").string() +
                ": the column `label` is the label, and `target` is a feature; leave out what repeats the label");
  write("file", "x,y,class\n1,2,2\n");
  write("file.t", "x,y,class\n1,2,2\n");
  EXPECT_NE(open("csv", Split::test, "file").remark.find("`class` is the label, and `y` is a feature"),
            std::string::npos);
}

TEST_F(RowFiles, SayWhatTheirColumnsAre) {
  write("file", "size,day,last\n1,2,0\n3,4,0\n");
  write("file.t", "size,day,last\n1,2,0\n");
  Rows rows = open("csv", Split::test, "file");
  EXPECT_EQ(rows.meaning(), "2 features: size (label),day,last") << "also if the last one is 0 in all rows";
  EXPECT_EQ(rows.remark, (folder_ / "file.t").string() +
                             ": the first column, `size`, is the label, since none is "
                             "called label, target, class, y");
  rows.fit("5 features", "--data-dir file");
  EXPECT_EQ(rows.features, 5U);
  EXPECT_EQ(error_of<ConfigError>([&] { rows.fit("4 features", "--data-dir file"); }),
            "--data-dir file: 5 features, and the model has 4");
  write("file", "1,2,0\n");
  write("file.t", "1,2,0\n");
  rows = open("csv", Split::test, "file");
  EXPECT_EQ(rows.meaning(), "2 features");
  EXPECT_EQ(rows.remark, "");
}

TEST_F(RowFiles, ASingleFilesTestsAreNearOrInIt) {
  std::string text;
  for (int i = 1; i <= 21; ++i) text += std::to_string(i) + " 1:1\n";
  write("set", text);
  EXPECT_EQ(text_of(open("libsvm", Split::test, "set")), "10: 0=1;20: 0=1;");
  EXPECT_EQ(open("libsvm", Split::train, "set").size(), 19U);
  write("set.t", "3 4:1\n");
  EXPECT_EQ(text_of(open("libsvm", Split::test, "set")), "3: 3=1;");
  EXPECT_EQ(open("libsvm", Split::train, "set").size(), 21U);
  EXPECT_EQ(open("libsvm", Split::train, "set").features, 4U);
}

TEST_F(RowFiles, NameFileAndLine) {
  const auto has = [](const std::string& text, std::string_view part) { return text.ends_with(part); };
  EXPECT_TRUE(has(error("libsvm", "1 1:2\nx 1:2\n"), "file:2: label `x` is not a number"));
  EXPECT_TRUE(has(error("libsvm", "1 1:nan\n"), "file:1: value `nan` is not a finite float"));
  EXPECT_TRUE(has(error("libsvm", "inf 1:1\n"), "file:1: label `inf` is not a finite float"));
  EXPECT_TRUE(has(error("libsvm", "1 1:1e99\n"), "file:1: value `1e99` is not a finite float"));
  EXPECT_TRUE(has(error("libsvm", "1 1:-1e999\n"), "file:1: value `-1e999` is not a finite float"));
  EXPECT_TRUE(has(error("libsvm", "1 1:1\n \n1 1:1\n"), "file:2: an empty line"));
  EXPECT_TRUE(has(error("libsvm", "1 1000000000:1\n"), "file:1: index 1000000000 is above 268435456"));
  EXPECT_TRUE(has(error("libsvm", "1 99999999999999999999:1\n"), "is above 268435456"));
  EXPECT_TRUE(has(error("libsvm", "1 0:1\n"), "file:1: index `0` is not a whole number from 1 on"));
  EXPECT_TRUE(has(error("libsvm", "1 qid:7 1:1\n"), "file:1: index `qid` is not a whole number from 1 on"));
  EXPECT_TRUE(has(error("libsvm", "1 2:1 2:1\n"), "file:1: index 2 follows 2; indices must ascend"));
  EXPECT_TRUE(has(error("libsvm", "1 2\n"), "file:1: `2` is not index:value"));
  EXPECT_TRUE(has(error("libsvm", "1 2:\n"), "file:1: value `` is not a number"));
  EXPECT_TRUE(has(error("libsvm", "\n"), "file: it holds no rows"));
  write("file", "1 1:1\n");
  const std::string few = error_of<FileError>([&] { open("libsvm", Split::test, "file"); });
  EXPECT_NE(few.find("file: too few rows for tests: every tenth is for them, and there are 1; ten"), std::string::npos);
  EXPECT_TRUE(has(few, "file.t with rows for tests"));
  EXPECT_TRUE(
      has(error("csv", "1\n"), "file:1: a label and one feature at least are wanted, with commas between them"));
  EXPECT_TRUE(has(error("csv", "1,2\n1,2,3\n"), "file:2: 3 cells, in the first line 2"));
  EXPECT_TRUE(has(error("csv", "1,2\n1,\n"), "file:2: cell 2 `` is not a number"));
  EXPECT_TRUE(has(error("csv", "1,NA\n1,2\n"), "file:1: cell 2 `NA` is not a number")) << "no line of names";
  EXPECT_TRUE(has(error("csv", "1,2\n\n1,2\n"), "file:2: an empty line"));
  EXPECT_TRUE(has(error("csv", "a,b\n1,NaN\n"), "file:2: cell 2 `NaN` is not a finite float"));
  EXPECT_TRUE(has(error("csv", ",a,y\n0,1,2\n"),
                  "file:1: column 1 has no name; give it one, or leave it out if it numbers the rows"));
  EXPECT_TRUE(has(error("csv", "label,a,Label\n0,1,2\n"), "file:1: two columns have the name `Label`"));
  const std::string missing = error_of<FileError>([&] { open("libsvm", Split::train); });
  EXPECT_NE(missing.find("train.libsvm: there is no such file"), std::string::npos) << missing;
}

TEST(MadeRows, AreTheSameEverywhereAndSparse) {
  const auto rows = open_rows({.train_size = 100}, Split::train);
  EXPECT_EQ(rows->size(), 100U);
  EXPECT_EQ(rows->features, 1'000'000U);
  EXPECT_NEAR(static_cast<double>(rows->columns.size()) / 100, 100, 20);
  for (std::size_t i = 0; i < 100; ++i) {
    const Row row = rows->at(i);
    EXPECT_TRUE(std::ranges::is_sorted(row.columns, std::ranges::less_equal{}));
    EXPECT_TRUE(row.label == 1 || row.label == -1);
  }
  std::vector<std::byte> all;
  for (const auto bytes : {std::as_bytes(std::span(rows->columns)), std::as_bytes(std::span(rows->values)),
                           std::as_bytes(std::span(rows->labels))}) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(sha256_hex(all), "4d3986951c5da3dab23e930785052e9facd1a85a7a08d04fc68f6cdf26fe9663");
  EXPECT_EQ(open_rows({}, Split::test)->size(), 10'000U);
}

}  // namespace
}  // namespace sotto
