#include "sotto/core/thread_pool.h"
#include "sotto/core/thread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sotto {
namespace {

class Threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ThreadPool, Threads, ::testing::Values(1, 2, 3, 5));

TEST_P(Threads, RunEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const std::size_t count : {0, 1, 2, 3, 4, 1000}) {
    std::vector<int> done(count);
    pool.run(count, [&](std::size_t i) { ++done[i]; });
    EXPECT_EQ(done, std::vector<int>(count, 1));
  }
}

TEST_P(Threads, SeeWhatWasWrittenBeforeAndAreSeenAfter) {
  ThreadPool pool(GetParam());
  std::vector<std::size_t> values(100, 1);
  for (std::size_t round = 0; round < 300; ++round) {
    pool.run(values.size(), [&](std::size_t i) { values[i] = 2 * values[i] % 1000003 + i; });
    for (std::size_t& value : values) ++value;
  }
  std::vector<std::size_t> expected(100, 1);
  for (std::size_t round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 2 * expected[i] % 1000003 + i + 1;
  }
  EXPECT_EQ(values, expected);
}

TEST_P(Threads, CutStretchesAsAsked) {
  ThreadPool pool(GetParam());
  for (const std::size_t count : {0, 1, 6, 7, 8, 100}) {
    std::vector<int> seen(count);
    pool.run_stretches(count, 7, [&](std::size_t begin, std::size_t end) {
      EXPECT_EQ(begin % 7, 0U);
      EXPECT_EQ(end, std::min(begin + 7, count));
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    EXPECT_EQ(seen, std::vector<int>(count, 1));
  }
}

// In whatever order tasks fail, the exception of the first task is thrown, and the pool still works.
TEST_P(Threads, PassOnTheExceptionOfTheFirstTask) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ended = 0;
    try {
      pool.run(200, [&](std::size_t i) {
        if (i == 17) std::this_thread::yield();
        if (i >= 17 && i % 2 == 1) throw std::runtime_error(std::to_string(i));
        ++ended;
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "17");
    }
    EXPECT_GE(ended, 17);
    EXPECT_LT(ended, 150);
    std::atomic<int> sum = 0;
    pool.run(10, [&](std::size_t i) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum, 45);
  }
}

TEST_P(Threads, RunWithinATaskOnTheThreadOfTheTask) {
  ThreadPool pool(GetParam());
  std::vector<std::vector<std::size_t>> order(20);
  pool.run(order.size(), [&](std::size_t i) {
    const auto outer = std::this_thread::get_id();
    pool.run(10, [&](std::size_t j) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      order[i].push_back(j);
    });
  });
  for (const auto& inner : order) EXPECT_EQ(inner, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_P(Threads, EndWithoutHavingWorked) {
  for (int i = 0; i < 50; ++i) const ThreadPool pool(GetParam());
}

// Tasks wait for each other, so they end only if as many threads are at work.
TEST_P(Threads, WorkAtTheSameTime) {
  ThreadPool pool(GetParam());
  const int threads = GetParam();
  std::atomic<int> begun = 0;
  Mutex mutex;
  std::set<std::thread::id> ids;
  pool.run(static_cast<std::size_t>(threads), [&](std::size_t) {
    {
      const Lock lock(mutex);
      ids.insert(std::this_thread::get_id());
    }
    ++begun;
    while (begun < threads) std::this_thread::yield();
  });
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(threads));
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, AreLeftAloneByAForkedChild) {
  auto pool = std::make_unique<ThreadPool>(3);
  pool->run(100, [](std::size_t) {});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(120);  // instead of hanging for ever
    std::size_t done = 0;
    pool->run(100, [&](std::size_t) { ++done; });  // on this thread alone
    pool.reset();
    ::_exit(done == 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadPool, NeedAThreadAndAGrain) {
  EXPECT_THROW(ThreadPool(0), std::logic_error);
  EXPECT_THROW(ThreadPool(2, 0), std::logic_error);
  EXPECT_THROW(ThreadPool(1).run_stretches(10, 0, [](std::size_t, std::size_t) {}), std::logic_error);
}

}  // namespace
}  // namespace sotto
