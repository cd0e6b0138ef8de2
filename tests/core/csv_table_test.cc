#include "sotto/core/csv_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "sotto/core/file.h"
#include "tests/core/helpers.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

struct Fruit {
  double weight = 0, price = 0;
};
struct Crate : Fruit {
  std::uint64_t number = 0;
  std::string name;
};

CsvTable<Crate> crates() {
  const CsvTable<Fruit> fruit({{"weight", &Fruit::weight, "{:.2f}"}, {"price", &Fruit::price}});
  std::vector<CsvColumn<Crate>> columns{{"number", &Crate::number}, {"name", [](auto& row) -> auto& {return row.name;
}
}  // namespace
};  // namespace sotto
columns.insert(columns.end(), fruit.columns().begin(), fruit.columns().end());
return CsvTable<Crate>(columns);
}

TEST(CsvTable, WritesAndReadsARowByItsColumns) {
  const CsvTable<Crate> table = crates();
  EXPECT_EQ(table.header(), "number,name,weight,price\n");
  EXPECT_EQ(table.line({{0.125, 1e5}, 7, "plums"}), "7,plums,0.12,1e+05\n");
  const Crate crate = table.row_of("7,,0.5,nan");
  EXPECT_EQ(crate.number, 7U);
  EXPECT_EQ(crate.name, "");
  EXPECT_EQ(crate.weight, 0.5);
  EXPECT_NE(crate.price, crate.price);
}

TEST(CsvTable, SaysWhichColumnIsWrong) {
  const CsvTable<Crate> table = crates();
  const auto refusal = [&](const char* line) { return message_of([&] { table.row_of(line); }); };
  EXPECT_EQ(refusal("1,a,2,3,4"), "it has 5 cells, not 4");
  EXPECT_EQ(refusal(""), "it has 1 cells, not 4");
  EXPECT_EQ(refusal("-1,a,2,3"), "`-1` is no number of the column number");
  EXPECT_EQ(refusal("1,a,2,"), "`` is no number of the column price");
}

TEST(CsvTable, KeepsTheLinesThatAreChosen) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "crates.csv";
  const auto begun = [&](bool continues) {
    crates().begin_file(path, continues, [](const Crate& row) { return row.number < 3; });
    return read_text(path);
  };
  const std::string header = "number,name,weight,price\n", whole = "1,a,0.10,2\n3,b,1,2\n2,c,1,2\n";
  EXPECT_EQ(begun(true), header);
  write_file_atomic(path, header + whole + "1,cut");
  EXPECT_EQ(begun(true), header + "1,a,0.10,2\n2,c,1,2\n");
  EXPECT_EQ(begun(false), header);
}

TEST(CsvTable, SaysWhereAFileIsWrong) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "crates.csv";
  const auto refusal = [&](const std::string& text) {
    write_file_atomic(path, text);
    return message_of([&] {
      crates().read_file(
          path, [](auto line, auto) { crates().row_of(line); }, "; mend it");
    });
  };
  const std::string at = path.string();
  EXPECT_EQ(refusal(""), at + ":1: it is empty: no run wrote it; mend it");
  EXPECT_EQ(refusal("number"), at + ":1: its columns are not `number,name,weight,price`: it is damaged, or of another "
                                    "version of sotto; mend it");
  EXPECT_EQ(refusal(crates().header() + "1,a,1,2\n3,b,x,2\n"),
            at + ":3: `x` is no number of the column weight; mend it");
  EXPECT_EQ(refusal(crates().header() + "1,a,1,2\n3,b,x,2"), "") << "a crash cut it off";
}

}  // namespace
}  // namespace sotto
