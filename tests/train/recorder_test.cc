#include "app/train/record/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;
using test::message_of;
using test::TempFolder;
using test::write;

StepRow row(std::uint64_t step, std::uint64_t rank = 0) {
  StepRow r;
  r.step = step;
  r.rank = rank;
  r.loss = 0.5;
  r.step_ms = static_cast<double>(step + 1);
  r.bytes_sent = 10 * step;
  return r;
}

TEST(Recorder, WritesRowsAndAResumeDropsThoseThatItRepeats) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  {
    Recorder recorder(temp.path(), 3);
    for (std::uint64_t step = 0; step < 5; ++step) recorder.add(row(step, 3));
    EXPECT_NEAR(recorder.median_step_ms(), 3.0, 0.03);
    EXPECT_DOUBLE_EQ(recorder.means().step_ms, 3.0);
    EXPECT_DOUBLE_EQ(recorder.means().bytes_sent, 20.0);
  }
  const std::string all = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6);
  EXPECT_TRUE(all.starts_with(
      "step,rank,epoch,loss,lr,step_ms,compute_ms,encode_ms,network_ms,decode_ms,wait_ms,queue_ms,data_ms,bytes_sent,"
      "bytes_received\n0,3,0.0000,0.5,0,1.000,0.000,0.000,0.000,0.000,0.000,0.000,0.000,0,0\n"))
      << all;
  EXPECT_NE(all.find("\n4,3,"), std::string::npos);
  write(temp.path() / "steps.csv", all + "1,3,0\n5,3,0.1");    // a damaged row, and one that a crash cut off
  const std::array<std::uint64_t, 4> first_steps{0, 0, 0, 3};  // by rank: drops rows from here on
  EXPECT_EQ(Recorder::prepare(temp.path(), first_steps), 30U) << "bytes of the rows that remain";
  const std::string kept = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 4);
  EXPECT_NE(kept.find("\n2,3,"), std::string::npos);
  EXPECT_EQ(kept.find("\n3,3,"), std::string::npos);
}

TEST(Recorder, TellsWhatShareOfTheExchangesComputingHid) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  StepRow alone = row(0);
  alone.encode_ms = 1;  // nothing was sent
  recorder.add(alone);
  EXPECT_FALSE(recorder.means().hidden());  // there were no exchanges
  StepRow exchanged = row(1);
  exchanged.network_ms = 6;
  exchanged.decode_ms = 1;
  exchanged.wait_ms = 2;
  exchanged.queue_ms = 4;
  recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.means().queue_ms, 2.0);
  EXPECT_DOUBLE_EQ(recorder.means().hidden().value_or(-1), 0.75);
  exchanged.wait_ms = 1000;  // waited for a late peer before the exchange
  for (int i = 0; i < 4; ++i) recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.means().hidden().value_or(-1), 0);
}

// The mean bytes of a step include those of a dense warm-up.
TEST(Recorder, BytesOfAStepAreTheMean) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  for (std::uint64_t step = 0; step < 200; ++step) {
    StepRow sent = row(step);
    sent.bytes_sent = step < 60 ? 1000 : 2;
    recorder.add(sent);
  }
  EXPECT_DOUBLE_EQ(recorder.means().bytes_sent, (60 * 1000 + 140 * 2) / 200.0);
}

TEST(Recorder, AFileThatIsTakenAwayIsBegunAnew) {
  const TempFolder temp;
  const fs::path file = temp.path() / "steps.csv";
  Recorder::prepare(temp.path(), {});
  Recorder first(temp.path(), 0), second(temp.path(), 1);
  first.add(row(0));
  first.flush();
  EXPECT_EQ(first.take_remark(), "");
  for (const bool moved : {false, true}) {
    moved ? fs::rename(file, temp.path() / "old") : static_cast<void>(fs::remove(file));
    for (const std::uint64_t rank : {0, 1}) {
      Recorder* const recorder = rank == 0 ? &first : &second;
      recorder->add(row(7, rank));
      recorder->flush();
      EXPECT_NE(recorder->take_remark().find("steps.csv was taken away"), std::string::npos);
      EXPECT_EQ(recorder->take_remark(), "");
    }
    const std::string text = read_text(file);
    EXPECT_TRUE(text.starts_with("step,rank,")) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
    EXPECT_NE(text.find("\n7,0,"), std::string::npos);
    EXPECT_NE(text.find("\n7,1,"), std::string::npos);
  }
}

TEST(Recorder, ALostRankWritesNothingIntoTheFileOfTheOthers) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  for (const bool others_go_on : {false, true}) {
    try {
      Recorder recorder(temp.path(), 0);
      recorder.add(row(others_go_on ? 4 : 3));
      if (others_go_on) Recorder::prepare(temp.path(), std::vector<std::uint64_t>{4});
      throw CommError("rank 0 is lost");
    } catch (const CommError&) {  // NOLINT(bugprone-empty-catch)
    }
  }
  const std::string text = read_text(temp.path() / "steps.csv");
  EXPECT_NE(text.find("\n3,0,"), std::string::npos);
  EXPECT_EQ(text.find("\n4,0,"), std::string::npos);
}

// Rows must not stay in memory: ten million of them would take a gigabyte.
TEST(Recorder, KeepsNoRows) {
  EXPECT_LT(sizeof(Recorder), 32U << 10U);
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  const auto resident = [] {
    std::ifstream status("/proc/self/statm");
    std::size_t all = 0, pages = 0;
    status >> all >> pages;
    return pages * static_cast<std::size_t>(::getpagesize());
  };
  const auto add = [&](std::uint64_t count) {
    for (std::uint64_t step = 0; step < count; ++step) recorder.add(row(step));
  };
  add(1000);
  const std::size_t before = resident();
  add(50'000);
  EXPECT_LE(resident(), before + (1U << 20U));  // 6 MB of rows
}

TEST(Recorder, AFullDiskIsAFileError) {
  const TempFolder temp;
  fs::create_symlink("/dev/full", temp.path() / "steps.csv");
  Recorder recorder(temp.path(), 0);
  recorder.add(row(0));
  EXPECT_NE(message_of([&] { recorder.flush(); }).find("steps.csv"), std::string::npos);
}

}  // namespace
}  // namespace sotto
