#include "sotto/comm/comm_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

TEST(CommThread, RunsWorkInOrderOnOneOtherThread) {
  std::vector<int> done;
  std::thread::id where;
  CommThread thread;
  for (int i = 0; i < 1000; ++i) {
    thread.post([&done, i] { done.push_back(i); });
  }
  thread.post([&where] { where = std::this_thread::get_id(); });
  thread.wait();
  ASSERT_EQ(done.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_NE(where, std::thread::id());
}

TEST(CommThread, ThrowsAnExceptionOnceAndDropsTheWorkBehindIt) {
  CommThread thread;
  int done = 0;
  thread.post([&done] { ++done; });
  thread.post([] { throw std::runtime_error("first"); });
  thread.post([&done] { done += 100; });
  thread.post([] { throw std::runtime_error("second"); });
  EXPECT_THROW(
      {
        try {
          thread.wait();
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "first");
          throw;
        }
      },
      std::runtime_error);
  EXPECT_EQ(done, 1);
  thread.wait();
  thread.post([&done] { ++done; });
  thread.wait();
  EXPECT_EQ(done, 2);
}

TEST(CommThread, EndsAfterPostedWork) {
  int done = 0;
  {
    CommThread thread;
    for (int i = 0; i < 100; ++i) thread.post([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
  {
    CommThread thread;
    thread.post([] { throw std::runtime_error("nobody waits"); });
  }
}

TEST(CommThread, WaitsForAPieceOfWorkOnly) {
  CommThread thread;
  std::atomic<int> done = 0;
  std::promise<void> go;
  for (int i = 0; i < 3; ++i) thread.post([&done] { ++done; });
  thread.post([&go] { go.get_future().wait(); });
  thread.post([&done] { ++done; });
  thread.wait([&done] { return done == 2 || done == 3; });
  EXPECT_GE(done, 2);
  EXPECT_LE(done, 3);
  go.set_value();
  thread.wait([&done] { return done > 100; });  // never true, so wait() returns once no work is left
  EXPECT_EQ(done, 4);
}

TEST(CommThread, TellsWhoWaitsForOneThatAnEarlierOneFailed) {
  CommThread thread;
  thread.post([] { throw CommError("rank 2 has gone"); });
  std::atomic<bool> done = false;
  thread.post([&done] { done = true; });
  EXPECT_THROW(thread.wait([&done] { return done.load(); }), CommError);
  EXPECT_FALSE(done);
}

TEST(CommThread, MeasuresHowLongWorkWaitsForTheWorkBeforeIt) {
  CommThread thread;
  EXPECT_EQ(thread.take_waits().works, 0U);
  std::promise<void> go;
  thread.post([&go] { go.get_future().wait(); });  // which is not measured itself
  for (int i = 0; i < 2; ++i) thread.post_measured([] {});
  const Timer timer;
  while (timer.seconds() < 0.001) {
  }
  const double least = timer.seconds();
  go.set_value();
  thread.wait();
  const CommThread::Waits waits = thread.take_waits();
  EXPECT_EQ(waits.works, 2U);
  EXPECT_GE(waits.mean(), least);
  EXPECT_EQ(thread.take_waits().seconds, 0);
}

TEST(CommThread, WaitsForNothing) {
  CommThread thread;
  thread.wait();
}

}  // namespace
}  // namespace sotto
