#include "app/train/record/evaluations.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <limits>
#include <string>

#include "app/train/record/listener.h"
#include "sotto/core/file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

namespace fs = std::filesystem;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kinds{
    Metric{.name = "loss", .label = "loss", .summary = "", .rises = false},
    Metric{.name = "bleu", .label = "BLEU", .summary = ""},
};
const std::string header = "step,epoch,seconds,bytes_sent,split,loss,bleu\n";

EvaluationRow row(std::uint64_t step, double loss, double bleu, Split split = Split::test) {
  return {.step = step,
          .epoch = 0.5 * static_cast<double>(step),
          .seconds = 0.25,
          .bytes_sent = 1000 * step,
          .split = split,
          .metrics = {kinds, {loss, bleu}}};
}

Evaluations of(const Metric& goal, std::optional<Target> until = {}) { return {kinds, goal, std::move(until)}; }
Target target(const char* text) { return read_target("until", text, kinds); }

TEST(Evaluations, TheBestIsTheFirstOfTheBestByTheGoal) {
  Evaluations rises = of(kinds[1]), falls = of(kinds[0]);
  EXPECT_FALSE(rises.best());
  for (Evaluations* all : {&rises, &falls}) {
    all->add(row(1, 3, 20));
    all->add(row(2, 1, 30));
    all->add(row(3, 2, 40));
    all->add(row(4, 1, 40));
    all->add(row(5, nan, 99));
    all->add(row(6, 0, 99, Split::train));
  }
  EXPECT_EQ(rises.best()->step, 3U);
  EXPECT_EQ(falls.best()->step, 2U);
  EXPECT_TRUE(rises.has(5) && !rises.has(4) && !rises.has(6));
}

TEST(Evaluations, ATargetIsReachedOnce) {
  Evaluations all = of(kinds[1], target("loss=2"));
  all.add(row(0, 1, nan));
  all.add(row(1, 3, 0));
  all.add(row(2, 1, 0, Split::train));
  EXPECT_FALSE(all.reached());
  all.add(row(3, 2, 0));
  all.add(row(4, 1, 0));
  ASSERT_TRUE(all.reached());
  EXPECT_EQ(all.reached()->step, 3U);
  EXPECT_EQ(all.reached()->bytes_sent, 3000U);
}

TEST(Evaluations, AFileComesBackUntilTheStepOfACheckpoint) {
  const TempFolder temp;
  Evaluations first = of(kinds[1], target("bleu=30"));
  EXPECT_EQ(first.prepare(temp.path(), 0), "");
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const std::array rows{row(step, 1, 2, Split::train), row(step, 1.0 / 3, 10 * static_cast<double>(step))};
    first.append(temp.path(), rows);
  }
  const std::string whole = read_text(temp.path() / "evaluations.csv");
  EXPECT_TRUE(
      whole.starts_with(header + "1,0.5000,0.250,1000,train,1,2\n1,0.5000,0.250,1000,test,0.3333333333333333,10\n"))
      << whole;
  write(temp.path() / "evaluations.csv", whole + "5,2.5,0.3");  // a row that a crash cut off

  Evaluations second = of(kinds[1], target("bleu=30"));
  second.take_up(second.prepare(temp.path(), 3));
  EXPECT_EQ(read_text(temp.path() / "evaluations.csv"), whole.substr(0, whole.find("\n4,") + 1));
  EXPECT_TRUE(second.has(3));
  EXPECT_EQ(second.best()->step, 3U);
  EXPECT_EQ(second.best()->metrics.values, (std::vector<double>{1.0 / 3, 30}));
  EXPECT_EQ(second.reached()->step, 3U);

  Evaluations anew = of(kinds[1]);
  EXPECT_EQ(anew.prepare(temp.path(), 0), "") << "a run that begins has no rows";
  EXPECT_EQ(read_text(temp.path() / "evaluations.csv"), header);
}

TEST(Evaluations, AFileThatWasTakenAwayIsBegunAnew) {
  const TempFolder temp;
  Evaluations all = of(kinds[1]);
  EXPECT_EQ(all.prepare(temp.path(), 7), "") << "there was none";
  fs::remove(temp.path() / "evaluations.csv");
  all.append(temp.path(), std::array{row(8, nan, 1)});
  EXPECT_EQ(read_text(temp.path() / "evaluations.csv"), header + "8,4.0000,0.250,8000,test,nan,1\n");
  EXPECT_EQ(all.prepare(temp.path(), 8), "8,4.0000,0.250,8000,test,nan,1\n") << "it can be read back";
}

TEST(Evaluations, WhatIsNoSuchFileIsRefused) {
  const TempFolder temp;
  const Evaluations all = of(kinds[1]);
  const auto refusal = [&](const std::string& text) {
    write(temp.path() / "evaluations.csv", text);
    return message_of([&] { all.prepare(temp.path(), 9); });
  };
  EXPECT_NE(refusal("step,loss\n1,2\n").find("its columns are not `step,epoch,seconds,bytes_sent,split,loss,bleu`"),
            std::string::npos);
  EXPECT_NE(refusal("").find("evaluations.csv:1: it is empty"), std::string::npos);
  const std::string good = "1,1,1,1,test,1,1\n";
  EXPECT_EQ(refusal(header + good), "");
  EXPECT_NE(refusal(header + good + "2,1,1,1,test,1\n").find("evaluations.csv:3: it has 6 cells, not 7"),
            std::string::npos);
  EXPECT_NE(refusal(header + "x,1,1,1,test,1,1\n").find("evaluations.csv:2: `x` is no number"), std::string::npos);
  EXPECT_NE(refusal(header + "1,1,1,-1,test,1,1\n").find("`-1` is no number"), std::string::npos);
  EXPECT_NE(refusal(header + "1,1,1,1,dev,1,1\n").find("`dev` is no split"), std::string::npos);
  EXPECT_NE(refusal(header + "1,1,1,1,test,,1\n").find("`` is no number"), std::string::npos);
}

TEST(Evaluations, AFullDiskIsAFileError) {
  const TempFolder temp;
  fs::create_symlink("/dev/full", temp.path() / "evaluations.csv");
  const Evaluations all = of(kinds[1]);
  EXPECT_NE(message_of([&] { all.append(temp.path(), std::array{row(1, 1, 1)}); }).find("evaluations.csv"),
            std::string::npos);
}

const std::string consensus_head = "step,epoch,seconds,bytes_sent,consensus_distance,accuracy_0,accuracy_1\n";

TEST(Consensus, IsReadUpToWhereACrashCutIt) {
  const TempFolder folder;
  EXPECT_TRUE(read_consensus(folder.path()).empty());
  write(folder.path() / "consensus.csv", consensus_head + "4,0.5,1.25,1000,0.75,0.5,nan\n8,1,2");
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
  EXPECT_EQ(refusal(consensus_head + "1,2,x,4,5,6,7\n"), path.string() + ":2: `x` is no number of the column seconds");
  EXPECT_EQ(refusal(consensus_head + "1,2,3,4,5,6,7\n1,2,3,4,5,6,\n"),
            path.string() + ":3: `` is no number of the column accuracy_1");
  EXPECT_EQ(refusal(consensus_head + "1,2,3,4,5,6,7\n1,2\n"), path.string() + ":3: it has 2 cells, not 7");
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
  const std::string rows = consensus_head + "4,1,1,1,1,0,0\n8,1,1,1,1,0,0\n12,1,1,1,1,0,0\n";
  write(folder.path() / "consensus.csv", rows);
  EXPECT_EQ(kept_after(folder.path(), choices, 2), (std::vector<std::string>{"4", "8"}));
  write(folder.path() / "consensus.csv", rows);
  EXPECT_TRUE(kept_after(folder.path(), choices, 3).empty()) << "other ranks have other columns";
}

}  // namespace
}  // namespace sotto
