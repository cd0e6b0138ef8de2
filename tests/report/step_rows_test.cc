#include "app/report/step_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

const std::string header =
    "step,rank,epoch,loss,lr,step_ms,compute_ms,encode_ms,network_ms,decode_ms,wait_ms,queue_ms,data_ms,bytes_sent,"
    "bytes_received\n";

TEST(StepRows, AreReadUpToACrash) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  write(path, header + "0,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n0,0,0,nan,0.1,10,6,1,3,2,4,0,0.5,200,90\n1,1,0,2");
  const StepRows found = read_step_rows(path);
  ASSERT_EQ(found.rows.size(), 2U) << "a line without its end is left out";
  EXPECT_EQ(found.rows[0].rank, 1U);
  EXPECT_EQ(found.rows[0].loss, 2.5);
  EXPECT_EQ(found.rows[0].wait_ms, 4);
  EXPECT_EQ(found.rows[0].data_ms, 0.5);
  EXPECT_EQ(found.rows[1].bytes_sent, 200U);
  EXPECT_TRUE(std::isnan(found.rows[1].loss));
}

TEST(StepRows, HaveTheGroupThatMadeThem) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  const std::string row = ",0,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n";
  write(path, header + "0" + row + "5" + row + "7" + row + "8" + row);
  EXPECT_EQ(read_step_rows(path).groups.size(), 1U);
  write(folder.path() / "membership.csv",
        "generation,step,ranks,members,new,threads,from,epoch\n1,0,2,0 1,0 1,1 1,start,0\n2,6,1,0,,1,generation 1,0.5\n"
        "3,5,2,0 1,1,1 1,generation 1,0.4\n4,8,3,0 1 2,2,1 1 1,generation 3,0.6\n5,9,1,");
  const StepRows found = read_step_rows(path);
  EXPECT_EQ(found.groups, (std::map<std::uint64_t, std::uint64_t>{{0, 2}, {5, 2}, {8, 3}}));
  EXPECT_EQ(found.newcomers, (std::map<std::uint64_t, std::set<std::uint64_t>>{{5, {1}}, {8, {2}}}));
  std::vector<std::uint64_t> groups;
  for (const StepFigures& one : found.rows) groups.push_back(one.group);
  EXPECT_EQ(groups, (std::vector<std::uint64_t>{0, 5, 5, 8}));
  write(folder.path() / "membership.csv", "generation,step,ranks,members,new,threads,from,epoch\ndamaged\n");
  EXPECT_NE(message_of([&] { read_step_rows(path); }).find("membership.csv:2: it has 1 cells, not 8"),
            std::string::npos);
}

TEST(StepRows, WhatIsDamagedIsToldWithItsLine) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  const auto refusal = [&](const std::string& text) {
    write(path, text);
    return message_of([&] { read_step_rows(path); });
  };
  const std::string at = path.string(), row = "0,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n";
  const std::string other_columns = at + ":1: its columns are not `" + header.substr(0, header.size() - 1) +
                                    "`: it is damaged, or of another version of sotto";
  EXPECT_EQ(refusal(""), at + ":1: it is empty: no run wrote it");
  EXPECT_EQ(refusal("step,rank\n"), other_columns);
  EXPECT_EQ(refusal("\x01\x02"), other_columns);
  EXPECT_EQ(refusal(header + row + "1,1,0,2.5\n"), at + ":3: it has 4 cells, not 15");
  EXPECT_EQ(refusal(header + "0,1,0,2.5x,0.1,10,6,1,3,2,4,0,0.5,100,90\n"),
            at + ":2: `2.5x` is no number of the column loss");
  EXPECT_EQ(refusal(header + "-1,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n"),
            at + ":2: `-1` is no number of the column step");
  EXPECT_EQ(refusal(header + row + row), at + ":3: rank 1 makes step 0 after step 0");
  EXPECT_NE(message_of([&] { read_step_rows(folder.path() / "none.csv"); }).find("none.csv"), std::string::npos);
}

}  // namespace
}  // namespace sotto
