// The laws of communicators on ranks that are threads, plain and behind an emulated link; what happens when one fails.
#include "sotto/comm/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "laws.h"
#include "sotto/comm/mailbox.h"
#include "sotto/comm/shaped.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

struct Backend {
  std::string_view name;
  bool shaped;
};
constexpr std::array backends{Backend{"threads", false}, Backend{"shaped", true}};

class Laws : public testing::TestWithParam<std::tuple<Backend, int, Law>> {};

TEST_P(Laws, Hold) {
  const auto& [backend, ranks, law] = GetParam();
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    if (backend.shaped) {
      const auto shaped = make_shaped(communicator.clone(), {10e9, 20e-6});
      law.check(*shaped);
    } else {
      law.check(communicator);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Laws,
                         testing::Combine(testing::ValuesIn(backends), testing::Values(1, 2, 3, 4, 7, 8),
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

// A rank whose exchange failed has taken its other messages back: nobody reads them from memory that is gone.
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
