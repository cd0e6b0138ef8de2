#include "app/train/record/consensus_csv.h"

#include <gtest/gtest.h>

#include "sotto/core/file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

const std::string head = "step,epoch,seconds,bytes_sent,consensus_distance,accuracy_0,accuracy_1\n";

TEST(Consensus, IsReadUpToWhereACrashCutIt) {
  const TempFolder folder;
  EXPECT_TRUE(read_consensus(folder.path()).empty());
  write(folder.path() / "consensus.csv", head + "4,0.5,1.25,1000,0.75,0.5,nan\n8,1,2");
  const auto rows = read_consensus(folder.path());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].step, 4U);
  EXPECT_EQ(rows[0].bytes_sent, 1000U);
  EXPECT_EQ(rows[0].distance, 0.75);
  EXPECT_EQ(rows[0].rank_goals.size(), 2U);
}

TEST(Consensus, WhatIsDamagedIsToldWithItsLine) {
  const TempFolder folder;
  const auto path = folder.path() / "consensus.csv";
  const auto refusal = [&](const std::string& text) {
    write(path, text);
    return message_of([&] { read_consensus(folder.path()); });
  };
  EXPECT_EQ(refusal("step\n"),
            path.string() +
                ":1: its columns are not `step,epoch,seconds,bytes_sent,consensus_distance`: it is damaged, or "
                "of another version of sotto");
  EXPECT_EQ(refusal(head + "1,2,x,4,5,6,7\n"), path.string() + ":2: `x` is no number of the column seconds");
  EXPECT_EQ(refusal(head + "1,2,3,4,5,6,7\n1,2,3,4,5,6,\n"),
            path.string() + ":3: `` is no number of the column accuracy_1");
  EXPECT_EQ(refusal(head + "1,2,3,4,5,6,7\n1,2\n"), path.string() + ":3: it has 2 cells, not 7");
}

std::vector<std::string> kept_after(const std::filesystem::path& folder, const Choices& choices, int ranks) {
  make_consensus_csv(choices)->begin({folder, 0, ranks, 8});
  std::vector<std::string> steps;
  for (const ConsensusRow& row : read_consensus(folder)) steps.push_back(std::to_string(row.step));
  return steps;
}

TEST(Consensus, AResumedRunKeepsTheRowsThatItDoesNotRepeat) {
  const TempFolder folder;
  Choices choices;
  choices.task = &task_table().require("task", "classify");
  write(folder.path() / "evaluations.csv",
        "step,epoch,seconds,bytes_sent,split,loss,accuracy,top5\n4,1,1,1,test,0,0,0\n8,1,1,1,test,0,0,0\n");
  const std::string rows = head + "4,1,1,1,1,0,0\n8,1,1,1,1,0,0\n12,1,1,1,1,0,0\n";
  write(folder.path() / "consensus.csv", rows);
  EXPECT_EQ(kept_after(folder.path(), choices, 2), (std::vector<std::string>{"4", "8"}));
  write(folder.path() / "consensus.csv", rows);
  EXPECT_TRUE(kept_after(folder.path(), choices, 3).empty()) << "other ranks have other columns";
}

}  // namespace
}  // namespace sotto
