// The laws of communicators on ranks that are threads, with and without an emulated link; and what happens when one
// fails.
#include "sotto/comm/emulated/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <latch>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../support/message_of.h"
#include "../support/thread_limit.h"
#include "laws.h"
#include "sotto/comm/emulated/shaped.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;

struct Backend {
  std::string_view name;
  bool shaped;
};
constexpr std::array backends{Backend{"threads", false}, Backend{"shaped", true}};

// Whether this rank's vector is exactly the sum; it is one of whole numbers.
bool is_sum(std::span<const float> data, int ranks) {
  const int once = ranks * (ranks - 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != static_cast<float>(once) + static_cast<float>(ranks) * static_cast<float>(i % 7)) return false;
  }
  return true;
}

// 12, 13 and 23 ranks are 4, 5 and 7 more than a power of two.
TEST(ManyRanks, SumShortVectorsInAboutLogWMessages) {
  for (const int ranks : {8, 9, 12, 13, 16, 23}) {
    const auto rounds = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks)) - 1);
    std::atomic<std::uint64_t> messages = 0;
    std::vector<std::vector<float>> odd(static_cast<std::size_t>(ranks));
    run_threads(ranks, 60s, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      for (const std::size_t length : {1, 3, 4096}) {
        std::vector<float> data(length);
        for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<float>(rank) + static_cast<float>(i % 7);
        const Traffic before = communicator.traffic();
        communicator.all_reduce(data);
        const Traffic after = communicator.traffic();
        if (!is_sum(data, ranks)) throw std::runtime_error("not the sum");
        const std::uint64_t bytes = after.bytes_sent - before.bytes_sent;
        if (bytes != communicator.all_reduce_bytes(length, DType::f32)) throw std::runtime_error("other bytes");
        if (bytes != 4 * length * (after.messages_sent - before.messages_sent)) throw std::runtime_error("not whole");
        if (after.messages_sent - before.messages_sent > rounds + 1) throw std::runtime_error("too many messages");
        if (length == 1) messages += after.messages_sent - before.messages_sent;
      }
      std::array<double, 2> ends{static_cast<double>(rank), -static_cast<double>(rank)};
      communicator.all_reduce(ends, ReduceOp::max);
      if (ends[0] != ranks - 1 || ends[1] != 0) throw std::runtime_error("not the largest");
      auto& mine = odd[static_cast<std::size_t>(rank)];
      for (int i = 0; i < 100; ++i) mine.push_back(1.0F / static_cast<float>(3 * rank + i + 1));
      communicator.all_reduce(mine);
    });
    for (const auto& other : odd) EXPECT_EQ(other, odd.front()) << "the same bits on all of " << ranks;
    const auto members = std::bit_floor(static_cast<std::uint64_t>(ranks));
    EXPECT_EQ(messages, members * rounds + 2 * (static_cast<std::uint64_t>(ranks) - members));
  }
}

TEST(RunThreads, ARankThatCannotBeStartedEndsTheOthers) {
  if (!test::ThreadLimit::works()) GTEST_SKIP() << "threads cannot be limited here";
  const test::ThreadLimit limit(2);
  try {
    run_threads(4, 600s, [](Communicator& communicator) { communicator.barrier(); });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no thread could be started for a rank"), std::string::npos)
        << error.what();
  }
}

class Laws : public testing::TestWithParam<std::tuple<Backend, int, Law>> {};

TEST_P(Laws, Hold) {
  const auto& [backend, ranks, law] = GetParam();
  run_threads(ranks, 60s, [&backend = backend, &law = law](Communicator& communicator) {
    if (backend.shaped) {
      const auto shaped = make_shaped(communicator.clone(), {{10e9, 20e-6}});
      law.check(*shaped);
    } else {
      law.check(communicator);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Laws,
                         testing::Combine(testing::ValuesIn(backends), testing::Values(1, 2, 3, 4, 7, 8, 11),
                                          testing::ValuesIn(laws())),
                         [](const auto& run) {
                           return std::string(std::get<0>(run.param).name) + std::to_string(std::get<1>(run.param)) +
                                  std::string(std::get<2>(run.param).name);
                         });

template <class Exception = CommError>
std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` in: " << text;
}

TEST(Threads, NoRankLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> come = 0;
  run_threads(5, 60s, [&](Communicator& communicator) {
    for (int round = 1; round <= 50; ++round) {
      ++come;
      communicator.barrier();
      EXPECT_GE(come, 5 * round);
    }
  });
}

TEST(Threads, ARankThatThrowsEndsTheOthersAtOnceAndIsNamed) {
  std::array<std::string, 4> errors;
  std::atomic<int> opened = 0;
  const auto begin = Clock::now();
  const std::string first = error_of<std::runtime_error>([&] {
    run_threads(4, 600s, [&](Communicator& communicator) {
      communicator.at_step(17);
      const auto mailbox = communicator.open_mailbox(100);
      ++opened;
      if (communicator.rank() == 2) {
        while (opened < 4) std::this_thread::sleep_for(1ms);
        throw std::runtime_error("the disk is full");
      }
      auto& error = errors[static_cast<std::size_t>(communicator.rank())];
      if (communicator.rank() == 3) {
        error = error_of([&] { mailbox->poll(600s); });
      } else {
        std::vector<float> data(100000);
        error = error_of([&] { communicator.all_reduce(data); });
      }
    });
  });
  EXPECT_EQ(first, "the disk is full");
  EXPECT_LT(Clock::now() - begin, 300s);
  expect_contains(errors[0], "rank 0: all_reduce with rank ");
  expect_contains(errors[0], " at step 17: rank 2 ended with an error: the disk is full");
  expect_contains(errors[1], "rank 2 ended with an error: the disk is full");
  expect_contains(errors[3], "rank 3: mailbox with rank 2: it ended with an error: the disk is full");
}

// What it has sent before still arrives.
TEST(Threads, ARankMayGiveUp) {
  run_threads(2, 30s, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) return communicator.give_up("no more");
    const std::string error = message_of([&] { communicator.barrier(); });
    EXPECT_NE(error.find("with rank 1 at step 0: it gave up (because of no more)"), std::string::npos) << error;
  });
}

TEST(Threads, TheCauseIsThrownIfARankGivesUpAndThrows) {
  std::latch ended(1);
  const std::string error = message_of([&] {
    run_threads(2, 30s, [&](Communicator& communicator) {
      if (communicator.rank() == 1) {
        communicator.give_up("no more");
        ended.wait();
        throw ConfigError("the cause");
      }
      try {
        communicator.barrier();
      } catch (const Error&) {
        ended.count_down();
        throw;
      }
    });
  });
  EXPECT_EQ(error, "the cause");
}

TEST(Threads, AStalledRankIsNamedAtTheDeadline) {
  std::array<std::string, 3> errors;
  std::atomic<int> ended = 0;
  run_threads(3, 200ms, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (ended < 2) std::this_thread::sleep_for(1ms);
      return;
    }
    std::array<float, 4> data{};
    errors[static_cast<std::size_t>(communicator.rank())] = error_of([&] { communicator.all_reduce(data); });
    ++ended;
  });
  EXPECT_EQ(errors[0], "rank 0: all_reduce with rank 1 at step 0: timed out after 0.2 s");
  EXPECT_EQ(errors[2], "rank 2: all_reduce with rank 1 at step 0: timed out after 0.2 s");
}

TEST(Threads, TakeAnyDeadline) {
  run_threads(2, std::chrono::milliseconds::max(), [](Communicator& communicator) {
    std::this_thread::sleep_for(communicator.rank() * 10ms);
    communicator.barrier();
  });
}

TEST(Threads, ARankThatHasEndedIsNotWaitedFor) {
  run_threads(2, 600s, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    EXPECT_EQ(error_of([&] { communicator.barrier(); }), "rank 0: barrier with rank 1 at step 0: it has ended");
  });
}

TEST(Threads, AMessageLargerThanItsRoomIsAnError) {
  run_threads(2, 600s, [](Communicator& communicator) {
    std::array<std::byte, 10> data{};
    const Send send{1, data};
    Recv recv{0, std::span(data).first(9)};
    if (communicator.rank() == 0) {
      communicator.exchange({&send, 1}, {});
    } else {
      EXPECT_EQ(error_of([&] {
                  communicator.exchange({}, {&recv, 1});
                }),
                "rank 1: exchange with rank 0 at step 0: a message of 10 bytes for a room of 9");
    }
  });
}

// A rank whose exchange failed takes its other messages back, so that no rank reads them from freed memory.
TEST(Threads, AFailedExchangeTakesItsMessagesBack) {
  std::atomic<bool> failed = false;
  run_threads(3, 100ms, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      const std::vector<std::byte> data(1000);
      const std::array<Send, 2> sends{Send{1, data}, Send{2, data}};
      expect_contains(error_of([&] { communicator.exchange(sends, {}); }), "rank 0: exchange with rank ");
      failed = true;
      return;
    }
    while (!failed) std::this_thread::sleep_for(1ms);
    std::vector<std::byte> room(1000);
    Recv recv{0, room};
    expect_contains(error_of([&] { communicator.exchange({}, {&recv, 1}); }), "exchange with rank 0 at step 0: ");
  });
}

TEST(Threads, NeedAtLeastOneRank) {
  EXPECT_THROW(run_threads(0, 1s, [](Communicator&) {}), std::logic_error);
}

}  // namespace
}  // namespace sotto
