#include "app/train/record/membership_csv.h"

#include <gtest/gtest.h>

#include <string>

#include "sotto/core/file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;
using Ids = std::vector<int>;

const std::string head = "generation,step,ranks,members,new,threads,from,epoch\n";

// What read_generations() says of a file with these rows.
std::string refusal(const std::string& rows) {
  const TempFolder folder;
  write(folder.path() / "membership.csv", head + rows);
  return message_of([&] { read_generations(folder.path()); });
}

TEST(MembershipCsv, IsReadAsItWasWritten) {
  const TempFolder folder;
  append_generation(folder.path(),
                    {.generation = 0, .step = 0, .ids = {0, 1, 2}, .newcomers = {0, 1, 2}, .threads = {1, 1, 1}});
  append_generation(
      folder.path(),
      {.generation = 1, .step = 40, .ids = {0, 2}, .threads = {1, 2}, .starts = false, .continues = 0, .epoch = 1.5});
  EXPECT_EQ(read_text(folder.path() / "membership.csv"),
            head + "0,0,3,0 1 2,0 1 2,1 1 1,start,0.0000\n1,40,2,0 2,,1 2,generation 0,1.5000\n");
  const auto rows = read_generations(folder.path());
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].starts && !rows[1].starts);
  EXPECT_EQ(rows[1].ids, (Ids{0, 2}));
  EXPECT_EQ(rows[1].newcomers, Ids());
  EXPECT_EQ(rows[1].threads, (Ids{1, 2}));
  EXPECT_EQ(rows[1].step, 40U);
  EXPECT_EQ(rows[1].epoch, 1.5);
  EXPECT_EQ(rows[1].line, 3U);
}

TEST(MembershipCsv, ALineThatACrashCutOffIsDropped) {
  const TempFolder temp;
  const GenerationRow row{.generation = 1, .ids = {0}, .newcomers = {0}, .threads = {1}};
  append_generation(temp.path(), row);
  const std::string whole = read_text(temp.path() / "membership.csv");
  for (const std::size_t left : {whole.size() - 9, std::size_t{5}}) {
    write(temp.path() / "membership.csv", whole.substr(0, left));
    append_generation(temp.path(), row);
    EXPECT_EQ(read_text(temp.path() / "membership.csv"), whole);
  }
}

TEST(MembershipCsv, OnlyWhatMadeTheStateCounts) {
  const TempFolder folder;
  write(folder.path() / "membership.csv", head +
                                              "0,0,2,0 1,0 1,1 1,start,0\n"
                                              "1,10,1,0,,1,generation 0,0.1\n"
                                              "0,8,2,0 1,0 1,1 1,model_step_8,0\n"
                                              "1,20,1,1,,1,generation 0,0.2\n"
                                              "2,20,2,0 1,0,1 1,generation 0,0.2\n"
                                              "3,30,1,0,,1,generation 2,0.3\n"
                                              "4,35,1");
  const auto rows = read_generations(folder.path());
  ASSERT_EQ(rows.size(), 3U) << "the last start, without generation 1, whose step was taken again";
  EXPECT_EQ(rows[0].step, 8U);
  EXPECT_EQ(rows[1].generation, 2U);
  EXPECT_EQ(rows[1].newcomers, Ids{0});
  EXPECT_EQ(rows[2].step, 30U);
}

TEST(MembershipCsv, NamesTheLineThatCannotBe) {
  const std::string start = "0,0,2,0 1,0 1,1 1,start,0\n";
  const auto expect = [&](const std::string& row, const std::string& error) {
    const std::string said = refusal(start + row + "\n");
    EXPECT_NE(said.find("membership.csv:3: " + error), std::string::npos) << said;
  };
  expect("1,10,1,0,,1,generation 0", "it has 7 cells, not 8");
  expect("1,x,1,0,,1,generation 0,0", "`x` is no number of the column step");
  expect("1,10,2,0,,1,generation 0,0", "it has 1 members, and not 2");
  expect("1,10,1,0,,1 1,generation 0,0", "it has 1 members, and not 2");
  expect("1,10,2,1 0,,1 1,generation 0,0", "the ids of its members do not ascend");
  expect("1,10,0,,,,generation 0,0", "the ids of its members do not ascend");
  expect("1,10,1,1073741824,,1,generation 0,0", "1073741824 in the column members is not in [0, 1073741823]");
  expect("1,10,1,0,,99999,generation 0,0", "99999 in the column threads is not in [1, 65535]");
  expect("1,10,1,0,,0,generation 0,0", "0 in the column threads");
  expect("1,10,2,0 2,3,1 1,generation 0,0", "some rank is new, but no member");
  expect("1,10,2,0 2,,1 1,generation 0,0", "rank 2 was no member of generation 0, and is not new");
  expect("1,10,2,0 1,0 1,1 1,generation 0,0", "all its members are new");
  expect("1,10,1,0,,1,generation 7,0", "there is no generation 7 before it");
  expect("1,10,1,0,,1,model_step_9,0", "`model_step_9` is nothing from which step 10 could begin");
  expect("1,10,1,0,,1,start,0", "`start` is nothing from which step 10 could begin");
  EXPECT_NE(refusal(start + "1,10,1,0,,1,generation 0,0\n2,5,1,0,,1,generation 1,0\n")
                .find("membership.csv:4: step 5 is before step 10, with which generation 1 began"),
            std::string::npos);
  EXPECT_NE(refusal("").find("it has no rows"), std::string::npos);
}

// A coordinator gives out no id twice, and passes over those that strangers took from its store.
TEST(MembershipCsv, HasEveryIdThatACoordinatorGivesOut) {
  const TempFolder folder;
  write(folder.path() / "membership.csv", head +
                                              "1,0,2,7 99999,7 99999,1 1,start,0\n"
                                              "2,10,2,7 1073741823,1073741823,1 1,generation 1,0.1\n");
  EXPECT_EQ(read_generations(folder.path()).back().ids, (Ids{7, 1073741823}));
}

TEST(MembershipCsv, OfAnotherVersionIsRefused) {
  const TempFolder folder;
  write(folder.path() / "membership.csv", "generation,step,ranks,members\n0,0,1,0\n");
  const std::string said = message_of([&] { read_generations(folder.path()); });
  EXPECT_NE(said.find("membership.csv:1: its columns are not `generation,step,"), std::string::npos) << said;
}

}  // namespace
}  // namespace sotto
