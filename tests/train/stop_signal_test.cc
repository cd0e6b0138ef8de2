#include "app/train/stop_signal.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "app/train/stop_signal.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

// The rank that failed ends with its own error. The others end with an error that names it.
TEST(Interruption, AnErrorOfOneRankEndsAll) {
  std::array<std::string, 3> heard;
  run_threads(3, std::chrono::seconds(20), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Interruption interruption(0, rank);
    interruption.attempt([&] {
      if (rank == 1) throw FileError("the disk is full");
    });
    interruption.attempt([&] {
      if (rank == 1) throw FileError("a later one");
    });
    EXPECT_EQ(interruption.failed(), rank == 1);
    EXPECT_EQ(interruption.wished(true), rank == 1);
    const int urgency = interruption.agreed_urgency(communicator);
    EXPECT_EQ(urgency, StopSignal::failed_rank + 1);
    heard[static_cast<std::size_t>(rank)] =
        message_of([&] { interruption.end_in_error(urgency - StopSignal::failed_rank, 7); });
  });
  EXPECT_EQ(heard[1], "the disk is full");
  EXPECT_EQ(heard[0], "rank 1 ended the run after step 7 because of an error");
  EXPECT_EQ(heard[2], heard[0]);
}

TEST(Interruption, AnyClockThatCountsMakesAllSave) {
  run_threads(2, std::chrono::seconds(20), [&](Communicator& communicator) {
    Interruption often(communicator.rank() == 0 ? 1e-12 : 0, communicator.rank()), never(0, communicator.rank()),
        seldom(1e6, communicator.rank());
    EXPECT_EQ(often.wished(true), communicator.rank() == 0);
    EXPECT_FALSE(often.wished(false)) << "where ranks cannot continue, they do not stop for a checkpoint";
    EXPECT_TRUE(often.agreed_late(communicator));
    EXPECT_FALSE(never.agreed_late(communicator));
    EXPECT_FALSE(seldom.agreed_late(communicator));
    EXPECT_EQ(often.agreed_urgency(communicator), 0);
  });
}

TEST(Interruption, TheClockMayHaveBegunEarlier) {
  const Timer earlier;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Interruption late(0.02 / 60, 0, earlier);
  EXPECT_TRUE(late.wished(true));
  late.saved();
  EXPECT_LT(late.since_checkpoint().seconds(), earlier.seconds());
}

}  // namespace
}  // namespace sotto
