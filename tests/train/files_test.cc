#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "app/train/folder/checkpoint.h"
#include "app/train/folder/folder_lock.h"
#include "app/train/folder/run_folder.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;
using test::message_of;
using test::TempFolder;
using test::write;

TEST(Checkpoint, FindsWholeOnesAscendingAndRemovesPartialOnes) {
  const TempFolder temp;
  for (const char* name : {"model_step_30", "model_step_4", "model_step_100.tmp", "model_step_x", "model_step_"}) {
    fs::create_directories(temp.path() / name);
  }
  EXPECT_EQ(checkpoint::find(temp.path()), (std::vector<std::uint64_t>{4, 30}));
  checkpoint::remove_partial(temp.path());
  EXPECT_FALSE(fs::exists(temp.path() / "model_step_100.tmp"));
  EXPECT_TRUE(fs::exists(temp.path() / "model_step_30"));
  EXPECT_TRUE(checkpoint::find(temp.path() / "missing").empty());
}

TEST(Checkpoint, MetadataComesBack) {
  const checkpoint::Metadata metadata{{"codec", "ef | topk(ratio=0.01)"}, {"ranks", "4"}};
  EXPECT_EQ(checkpoint::from_text(checkpoint::to_text(metadata)), metadata);
}

TEST(RunFolder, ASignalEndsTheWaitForAnotherRun) {
  const TempFolder temp;
  const FolderLock other(temp.path());
  TrainOptions options;
  options.train_dir = temp.path().string();
  const Choices choices = read_choices(options);
  const StopSignal signals;
  std::raise(SIGINT);
  run_threads(1, std::chrono::seconds(20),
              [&](Communicator& communicator) { EXPECT_THROW(RunFolder(choices, communicator, 2, ""), Stopped); });
  const StopSignal none;  // forgets it
}

TEST(FolderLock, OnlyAnotherHolderKeepsItAway) {
  const TempFolder temp;
  const FolderLock first(temp.path());
  EXPECT_TRUE(first.held());
  EXPECT_EQ(first.doubt(), "");
  EXPECT_FALSE(FolderLock(temp.path()).held());
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    static int reason = 0;
    reason = error;
    const FolderLock without(temp.path(), [](int, int) {
      errno = reason;
      return -1;
    });
    EXPECT_TRUE(without.held());
    EXPECT_NE(without.doubt().find("cannot be locked"), std::string::npos);
  }
}

TEST(FolderLock, IsSeizedFromALostHolder) {
  const TempFolder temp;
  FolderLock first(temp.path());
  first.sign("a 1");
  FolderLock second(temp.path());
  EXPECT_FALSE(second.held());
  EXPECT_EQ(second.signature(), "a 1");
  second.seize();
  second.sign("a 2");
  EXPECT_TRUE(second.held() && !second.lost());
  EXPECT_TRUE(first.lost());
  EXPECT_FALSE(FolderLock(temp.path()).held());
  EXPECT_EQ(FolderLock(temp.path()).signature(), "a 2");
  fs::remove(temp.path() / ".lock");
  EXPECT_FALSE(second.lost()) << "nobody has taken it";
}

TEST(RunFolder, IsTakenFromAnEarlierGenerationOfTheSameRunAlone) {
  const auto is_taken_from = [](const std::string& signature) {
    const TempFolder temp;
    TrainOptions options;
    options.train_dir = temp.path().string();
    options.disk_deadline = 15;  // longer than the respite of a lost rank
    const Choices choices = read_choices(options);
    FolderLock lost(temp.path());
    lost.sign(signature);
    run_threads(1, std::chrono::seconds(60), [&](Communicator& communicator) {
      try {
        const RunFolder folder(choices, communicator, 3, "cafe");
      } catch (const ConfigError&) {
        EXPECT_FALSE(lost.lost());
      }
    });
    return lost.lost();
  };
  std::map<std::string, std::future<bool>> taken;
  for (const char* one : {"cafe 0", "cafe 1", "cafe 2", "cafe 3", "beef 1"}) {
    taken[one] = std::async(std::launch::async, is_taken_from, one);
  }
  for (auto& [signature, is] : taken) EXPECT_EQ(is.get(), signature == "cafe 1" || signature == "cafe 2") << signature;
}

TEST(Manifest, ComesBackAndTellsPartsApart) {
  const TempFolder temp;
  ThreadPool pool(2);
  Manifest manifest{.run = "ab", .step = 7, .kept = Kept::by_clock, .identity = {{"ranks", "2"}}, .parts = {}};
  for (const char* name : {"rank_0", "rank_1"}) {
    StateWriter part(temp.path() / name, part_text(manifest, name), pool);
    part.add("values", std::vector<float>{1, 2});
    manifest.parts[name] = part.finish();
  }
  write_manifest(temp.path(), manifest);
  const Manifest read = Manifest::of_text(read_manifest_text(temp.path()));
  EXPECT_TRUE(read.run == "ab" && read.step == 7 && read.kept == Kept::by_clock);
  EXPECT_EQ(read.identity, manifest.identity);
  EXPECT_EQ(read.parts, manifest.parts);
  const auto problem = [&](const char* name) { return problem_of_part(temp.path(), name, manifest, pool); };
  EXPECT_EQ(problem("rank_0"), "");
  EXPECT_NE(problem("rank_2").find("has no such part"), std::string::npos);
  fs::copy_file(temp.path() / "rank_0", temp.path() / "rank_1", fs::copy_options::overwrite_existing);
  EXPECT_NE(problem("rank_1").find("but rank_0 of step 7 of the same run"), std::string::npos) << problem("rank_1");
  write(temp.path() / "rank_1", "damaged");
  EXPECT_NE(problem("rank_1").find("rank_1: not a file of this kind"), std::string::npos) << problem("rank_1");
  fs::remove(temp.path() / "rank_1");
  EXPECT_NE(problem("rank_1").find("missing"), std::string::npos);
}

// A disk may take much longer than the deadline of the network.
TEST(FileWork, DisksHaveTimeOfTheirOwn) {
  std::atomic<int> ended = 0;
  const auto deadline = std::chrono::seconds(2);
  run_threads(3, deadline, [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(60));
    files.run("write", [&] {
      if (communicator.rank() == 1) std::this_thread::sleep_for(2 * deadline);
      ++ended;
    });
    EXPECT_EQ(ended, 3) << "all wait for all";
  });
}

TEST(FileWork, AllHearOfAnError) {
  std::array<std::string, 3> heard;
  run_threads(3, std::chrono::seconds(20), [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(60));
    try {
      files.run("write its part", [&] {
        if (communicator.rank() == 1) throw FileError("the disk is full");
      });
    } catch (const FileError& error) {
      heard[static_cast<std::size_t>(communicator.rank())] = error.what();
    } catch (const CommError& error) {
      heard[static_cast<std::size_t>(communicator.rank())] = std::string("C ") + error.what();
    }
    communicator.barrier();  // the communicator still works
  });
  EXPECT_EQ(heard[0], "C rank 1 could not write its part: the disk is full");
  EXPECT_EQ(heard[1], "the disk is full");
  EXPECT_EQ(heard[2], heard[0]);
}

TEST(FileWork, EndsAtItsOwnLimit) {
  std::atomic<bool> others_gave_up = false;
  std::array<std::string, 2> heard;
  run_threads(2, std::chrono::seconds(20), [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(0));
    heard[static_cast<std::size_t>(communicator.rank())] = message_of([&] {
      files.run("write", [&] {
        while (communicator.rank() == 1 && !others_gave_up) std::this_thread::yield();
      });
    });
    if (communicator.rank() == 0) others_gave_up = true;
  });
  EXPECT_NE(heard[0].find("rank 1 to write; disk-deadline"), std::string::npos) << heard[0];
}

}  // namespace
}  // namespace sotto
