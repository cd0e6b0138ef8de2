// The emulated link is never faster than a real one. The bound for how much slower it may be is loose, since a busy
// machine is slow.
#include "sotto/comm/emulated/shaped.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

constexpr LinkShape link{8e6, 0.02};  // a byte takes 1 us
constexpr double slack = 2;           // seconds

// Seconds from when the first rank begins until the last one has done its work.
double time_of(int ranks, LinkShape shape, const std::function<void(Communicator&)>& work) {
  Mutex mutex;
  auto begin = Clock::time_point::max();
  auto end = Clock::time_point::min();
  run_threads(ranks, 60s, [&](Communicator& inner) {
    const auto shaped = make_shaped(inner.clone(), Links{shape});
    inner.barrier();
    const auto begun = Clock::now();
    work(*shaped);
    const auto done = Clock::now();
    const Lock lock(mutex);
    begin = std::min(begin, begun);
    end = std::max(end, done);
  });
  return std::chrono::duration<double>(end - begin).count();
}

void expect_time(double seconds, double law) {
  EXPECT_GE(seconds, law);
  EXPECT_LE(seconds, law + slack);
}

TEST(Shaped, AGatherTakesTheOthersMessagesOneAfterTheOther) {
  expect_time(time_of(4, link,
                      [](Communicator& communicator) {
                        std::vector<std::byte> mine(20000);
                        std::vector<std::byte> all(80000);
                        communicator.all_gather(mine, all);
                      }),
              3 * 0.02 + 0.02);
}

TEST(Shaped, ARingSendsEachPartTwice) {
  const double seconds = time_of(4, link, [](Communicator& communicator) {
    std::vector<float> data(20000);
    communicator.all_reduce(data);
  });
  expect_time(seconds, 6 * (0.02 + 0.02));  // six rounds, a quarter of the vector each
}

// All ranks send to rank 0 at the same time. The link of rank 0 carries one message after the other.
TEST(Shaped, AStarIsBoundByTheLinkOfItsCentre) {
  const double seconds = time_of(4, link, [](Communicator& communicator) {
    std::vector<std::byte> data(60000);
    if (communicator.rank() == 0) {
      std::vector<Recv> recvs;
      for (std::size_t i = 0; i < 3; ++i)
        recvs.push_back({static_cast<int>(i) + 1, std::span(data).subspan(i * 20000, 20000)});
      communicator.exchange({}, recvs);
    } else {
      const Send send{0, std::span(data).first(20000)};
      communicator.exchange({&send, 1}, {});
    }
  });
  expect_time(seconds, 3 * 0.02 + 0.02);
}

TEST(Shaped, MessagesLeaveOneAfterTheOther) {
  Clock::time_point begin;
  const double seconds = time_of(4, link, [&begin](Communicator& communicator) {
    std::vector<std::byte> data(20000);
    if (communicator.rank() == 0) {
      const std::array<Send, 3> sends{Send{1, data}, Send{2, data}, Send{3, data}};
      begin = Clock::now();
      communicator.exchange(sends, {});
    } else {
      Recv recv{0, data};
      const Timer timer;
      communicator.exchange({}, {&recv, 1});
      EXPECT_GE(timer.seconds(),
                communicator.rank() * 0.02);  // without latency, since ranks may begin at different times
    }
  });
  expect_time(seconds, 3 * 0.02 + 0.02);
}

// The length of the message counts, not the size of the room for it.
TEST(Shaped, AShortMessageTakesAShortTime) {
  const double seconds = time_of(3, link, [](Communicator& communicator) {
    std::vector<std::byte> mine(20000);
    std::vector<std::byte> all(40000000);
    const int rank = communicator.rank();
    const std::array<Send, 2> sends{Send{(rank + 1) % 3, mine}, Send{(rank + 2) % 3, mine}};
    const auto length = [](std::span<const std::byte>) { return std::size_t{20000}; };
    std::array<Recv, 2> recvs{Recv{(rank + 2) % 3, std::span(all).first(20000000), {}, length},
                              Recv{(rank + 1) % 3, std::span(all).subspan(20000000), {}, length}};
    communicator.exchange(sends, recvs);
  });
  expect_time(seconds, 2 * 0.02 + 0.02);
}

TEST(Shaped, ClonesShareTheLink) {
  const double seconds = time_of(2, link, [](Communicator& communicator) {
    const auto twin = communicator.clone();
    const auto swap = [](Communicator& mine) {
      std::vector<std::byte> data(50000);
      std::vector<std::byte> room(50000);
      const Send send{1 - mine.rank(), data};
      Recv recv{1 - mine.rank(), room};
      mine.exchange({&send, 1}, {&recv, 1});
    };
    std::thread beside([&] { swap(*twin); });
    swap(communicator);
    beside.join();
  });
  expect_time(seconds, 2 * 0.05 + 0.02);
}

TEST(Shaped, LatencyAloneIsPaidOnceARound) {
  expect_time(time_of(4, {0, 0.03}, [](Communicator& communicator) { communicator.barrier(); }), 2 * 0.03);
}

TEST(Shaped, CountsWhatTheInnerCommunicatorCounts) {
  run_threads(3, 60s, [](Communicator& communicator) {
    auto clone = communicator.clone();
    const Communicator& inner = *clone;
    const auto shaped = make_shaped(std::move(clone), {{1e9, 0}});
    std::vector<float> data(10000);
    std::vector<float> all(30000);
    shaped->all_reduce(data);
    shaped->all_gather(std::as_bytes(std::span(data)), std::as_writable_bytes(std::span(all)));
    shaped->broadcast(std::as_writable_bytes(std::span(data)), 1);
    shaped->barrier();
    EXPECT_GT(shaped->traffic().bytes_sent, 0U);
    EXPECT_EQ(shaped->traffic().bytes_sent, inner.traffic().bytes_sent);
    EXPECT_EQ(shaped->traffic().bytes_received, inner.traffic().bytes_received);
    EXPECT_EQ(shaped->traffic().messages_sent, inner.traffic().messages_sent);
    EXPECT_EQ(shaped->name(), "shaped");
  });
}

// A mailbox shares the link of its communicator, and its messages are delayed, too: the last of three messages waits
// for the other two, at both ends.
TEST(Shaped, MailIsHeldBack) {
  const double seconds = time_of(2, link, [](Communicator& communicator) {
    const auto mailbox = communicator.open_mailbox(30000);
    const std::vector<std::byte> data(20000);
    const Timer timer;
    if (communicator.rank() == 0) {
      for (int i = 0; i < 3; ++i) mailbox->send(1, data);
      EXPECT_LT(timer.seconds(), slack);
    } else {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(mailbox->poll(60s));
    }
    communicator.barrier();
  });
  expect_time(seconds, 3 * 0.02 + 0.02);
}

TEST(Shaped, PollGivesUpInTime) {
  run_threads(2, 60s, [](Communicator& inner) {
    const auto shaped = make_shaped(inner.clone(), {{0, 0.3}});
    const auto mailbox = shaped->open_mailbox(10);
    const Timer timer;
    if (inner.rank() == 0) {
      mailbox->send(1, {});
    } else {
      EXPECT_FALSE(mailbox->poll(1ms) && timer.seconds() < 0.3);
      EXPECT_TRUE(mailbox->poll(60s));
    }
    inner.barrier();
  });
}

TEST(Shaped, ALinkTooSlowForTheDeadlineIsAnError) {
  EXPECT_THROW(run_threads(2, 200ms,
                           [](Communicator& communicator) {
                             const auto shaped = make_shaped(communicator.clone(), {{1000, 0}});
                             std::vector<float> data(1000);
                             shaped->all_reduce(data);
                           }),
               CommError);
}

TEST(ParseLink, ReadsRateAndLatency) {
  const auto expect = [](std::string_view text, double rate, double latency) {
    const LinkShape shape = parse_link("link", text);
    EXPECT_DOUBLE_EQ(shape.bits_per_second, rate) << text;
    EXPECT_DOUBLE_EQ(shape.latency, latency) << text;
  };
  expect("100mbit", 100e6, 0);
  expect("1gbit,5ms", 1e9, 5e-3);
  expect("20kbit, 200us", 20e3, 200e-6);
  expect(" 2.5 mbit , 0.1s ", 2.5e6, 0.1);
  expect("5ms,10bit", 10, 5e-3);
  expect("50ms", 0, 50e-3);
}

TEST(ParseLink, RefusesAnythingElse) {
  for (const char* text : {"",
                           ",",
                           "100",
                           "mbit",
                           "100mb",
                           "100Mbit",
                           "-1mbit",
                           "0mbit",
                           "nanmbit",
                           "infmbit",
                           "1e400mbit",
                           "100mbit,",
                           "100mbit,,5ms",
                           "100mbit,5mbit",
                           "5ms,5ms",
                           "100mbit 5ms",
                           "100mbit;5ms",
                           "1mbit,5ms,5ms",
                           "0x10mbit",
                           "99999999999999999999gbit"}) {
    try {
      parse_link("link", text);
      ADD_FAILURE() << "`" << text << "` was accepted";
    } catch (const ConfigError& error) {
      const std::string named = *text == 0 ? "link" : "link " + std::string(text);
      EXPECT_EQ(std::string(error.what()).rfind(named + ": ", 0), 0U) << error.what();
    }
  }
  try {
    parse_link("link", "100");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "link 100: `100` has no unit (bit, kbit, mbit, gbit; us, ms, s); write a rate, a latency or both, as in "
        "100mbit or 1gbit,5ms");
  }
}

}  // namespace
}  // namespace sotto
