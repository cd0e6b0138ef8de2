// Connections that break: every message comes once, in order, or the peer is lost with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/core/error.h"
#include "tests/comm/middlebox.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::break_all;
using test::Bytes;
using test::message;
using test::Middlebox;
using test::Rank;
using test::Ranks;
using test::tapped;
using Kind = TcpFrame::Kind;

// With a secret, or without one.
class Breaks : public Ranks, public testing::WithParamInterface<bool> {
 protected:
  Breaks() : Ranks(GetParam() ? std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}}) : nullptr) {}
};

TEST_P(Breaks, AreMendedWhereverTheyHappen) {
  const std::vector<Bytes> messages{message(1, 1), message(0, 0), message(3'000'000, 2), message(600'000, 3),
                                    message(100, 4)};
  const std::size_t hello = TcpHello::bytes;
  std::deque<Middlebox> boxes;  // they stay, since io_ continues
  for (const int way : {0, 1}) {
    for (const std::size_t bytes : {std::size_t{1},
                                    std::size_t{23},
                                    std::size_t{24},
                                    std::size_t{25},
                                    std::size_t{48},
                                    hello - 1,
                                    hello,
                                    hello + 1,
                                    hello + 24,
                                    hello + 49,
                                    hello + 73,
                                    std::size_t{300},
                                    std::size_t{700},
                                    std::size_t{5'000},
                                    std::size_t{100'000},
                                    TcpFrame::piece + 80,
                                    TcpFrame::piece + 1000,
                                    std::size_t{1} << 21,
                                    std::size_t{3'000'100},
                                    std::size_t{3'500'000}}) {
      start(2);
      const std::uint16_t port = read_tcp_place(rank(0).place).port;
      Middlebox& box = boxes.emplace_back(io_, port, Middlebox::Deed::cut, way, bytes);
      rank(0).place = tapped(rank(0).place, box.port());
      rank(1).lines.resume(0);  // rank 1 connects first
      run_until([&] { return rank(1).lines.connections() == 1 || box.done == 1; });
      swap(messages);
      EXPECT_EQ(box.done, 1) << way << " " << bytes;
      for (const auto& one : all_) one->lines.close();
      before_.push_back(std::move(all_));
      all_.clear();
    }
  }
}

TEST_P(Breaks, AreMendedUnderLoad) {
  start(2);
  std::vector<Bytes> messages;
  for (int i = 0; i < 200; ++i) {
    messages.push_back(message(
        std::array<std::size_t, 6>{1, 100, 5'000, 300'000, 0, 3'000'000}.at(static_cast<std::size_t>(i) % 6), i));
  }
  std::size_t breaks = 0;
  swap(messages, [&] {
    if (breaks == 30 || rank(0).came[1].size() + rank(1).came[0].size() <= 13 * breaks) return;
    break_all();
    ++breaks;
  });
  EXPECT_EQ(breaks, 30);
}

// Neither side reads what the other one sends, nor what it acknowledges.
TEST_P(Breaks, DoNotMakeASenderWait) {
  start(2);
  rank(0).reads = false;
  const Bytes data = message(3'000'000, 1), large = message(9'000'000, 2);
  send(1, 0, data);
  send(0, 1, large);
  run_until([&] { return rank(0).messages_sent == 1 && rank(1).came[0].size() == 1; });
  EXPECT_EQ(rank(1).messages_sent, 0);
  break_all();
  const Bytes more = message(1000, 3);
  send(0, 1, more);
  run_until([&] { return rank(1).came[0].size() == 2; });
  rank(0).reads = true;
  rank(0).lines.resume(1);
  run_until([&] { return rank(0).came[1].size() == 1 && rank(1).messages_sent == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_EQ(rank(1).came[0], (std::deque<Bytes>{large, more}));
}

TEST_P(Breaks, ShowThatAPeerHasEnded) {
  start(2);
  const Bytes data = message(1000, 1);
  send(0, 1, data);
  run_until([&] { return rank(1).came[0].size() == 1; });
  rank(1).lines.close();
  run_until([&] { return rank(0).losses.contains(1); });  // the deadline is far away
  EXPECT_EQ(rank(0).losses[1], "the connection was closed: the peer ended or was killed");
}

// Rank 1 ends; then somebody listens at its door, and nothing more.
class Abandoned : public Breaks {
 protected:
  void abandon(std::chrono::milliseconds deadline) {
    for (int rank = 0; rank < 2; ++rank) all_.push_back(std::make_unique<Rank>(io_, rank, 2, tls_, all_, deadline));
    const Bytes data = message(1000, 1);
    send(1, 0, data);
    run_until([&] { return rank(0).came[1].size() == 1; });
    const std::uint16_t port = read_tcp_place(rank(1).place).port;
    rank(1).lines.close();
    acceptor_.emplace(io_, asio::ip::tcp::endpoint{asio::ip::address_v4::loopback(), port});
    turn_away();
  }

 private:
  void turn_away() {
    acceptor_->async_accept([this](const asio::error_code& error, const asio::ip::tcp::socket&) {
      if (!error) turn_away();
    });
  }
  std::optional<asio::ip::tcp::acceptor> acceptor_;
};

TEST_P(Abandoned, RanksGiveUpAtTheDeadline) {
  abandon(200ms);
  run_until([&] { return rank(0).losses.contains(1); });
  const std::string reason = rank(0).losses[1];
  EXPECT_TRUE(reason.starts_with("the connection was closed, and it could not be made again for ")) << reason;
  EXPECT_NE(reason.find(" s: "), std::string::npos) << reason;
}

TEST_P(Abandoned, RanksDoNotCountTheTimeInWhichTheyAreBusy) {
  abandon(3s);
  run_until([&] { return !rank(0).lines.trouble(1).empty(); });
  std::this_thread::sleep_for(3100ms);
  rank(0).lines.resume(1);
  const auto end = Clock::now() + 100ms;
  while (Clock::now() < end) io_.run_one_until(end);
  EXPECT_TRUE(rank(0).losses.empty()) << rank(0).losses[1];
  run_until([&] { return rank(0).losses.contains(1); });
}

// A peer that refuses a message gives up the line, and its door still stands open.
TEST_P(Breaks, AreNotMendedAfterAWrongMessage) {
  start(2);
  rank(1).most = 1000;
  const Bytes data = message(1001, 1);
  send(0, 1, data);
  run_until([&] { return rank(0).losses.contains(1) && rank(1).losses.contains(0); });
  EXPECT_EQ(rank(1).losses[0], "too long");
  EXPECT_EQ(rank(0).losses[1], "it has given up the connection for good");
}

// The system breaks a connection whose other end has had no room for a third of the deadline, at least for ten seconds.
TEST_P(Breaks, ComeFromARankThatIsBusyForLong) {
  for (int number : {0, 1}) all_.push_back(std::make_unique<Rank>(io_, number, 2, tls_, all_, 30s));
  rank(1).reads = false;
  const Bytes data = message(8 << 20, 1);
  send(0, 1, data);
  const auto end = Clock::now() + 14s;
  while (Clock::now() < end) io_.run_one_until(end);
  EXPECT_TRUE(rank(0).losses.empty() && rank(1).losses.empty());
  rank(1).reads = true;
  rank(1).lines.resume(0);
  run_until([&] { return rank(1).came[0].size() == 1 && rank(0).messages_sent == 1; });
  EXPECT_EQ(rank(1).came[0].front(), data);
}

INSTANTIATE_TEST_SUITE_P(Secret, Abandoned, testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });
INSTANTIATE_TEST_SUITE_P(Secret, Breaks, testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

// Rank 1 is played by the test.
class FalseMember : public Ranks {
 protected:
  asio::ip::tcp::socket come(std::uint64_t connection, std::uint64_t due, TcpKey key, std::uint64_t last = 0) {
    auto socket = stranger(0);
    std::array<std::byte, TcpHello::bytes> hello{};
    const std::string& place = rank(1).place;
    write_hello(
        {1, 0, 2, connection, last, due, key, place.empty() ? TcpHello::Place{} : packed(read_tcp_place(place))},
        hello);
    asio::write(socket, asio::buffer(hello));
    return socket;
  }
  static std::array<std::byte, TcpFrame::bytes> word(const TcpFrame& frame) {
    std::array<std::byte, TcpFrame::bytes> room{};
    write_frame(frame, room);
    return room;
  }
  asio::ip::tcp::socket come(std::uint64_t connection, std::uint64_t due, std::uint64_t last = 0) {
    return come(connection, due, read_tcp_place(rank(0).place).key, last);
  }
};

TEST_F(FalseMember, IsLostWithAFalseAcknowledgement) {
  start(2);
  auto member = come(1, 1);
  asio::write(member, asio::buffer(word({Kind::ack, 5, 0})));
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_EQ(rank(0).losses[1], "it says that frame 5 is due, which must be one of 1 to 1");
}

TEST_F(FalseMember, IsLostWithAFalseHello) {
  start(2);
  const auto member = come(1, 7);
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_EQ(rank(0).losses[1], "it says that frame 7 is due, which must be one of 1 to 1");
}

TEST_F(FalseMember, ReplacesItsConnectionWithANewerOneOnly) {
  start(2);
  auto first = come(5, 1);
  EXPECT_EQ(hear(first, TcpFrame::bytes).size(), TcpFrame::bytes);
  for (const std::uint64_t stale : {1U, 4U, 5U}) {
    auto again = come(stale, 1);
    EXPECT_TRUE(hear(again, 1).empty());
  }
  auto stranger = come(6, 1, TcpKey{});
  EXPECT_TRUE(hear(stranger, 1).empty());
  const Bytes data = message(100, 1);
  send(0, 1, data);
  const Bytes heard = hear(first, TcpFrame::bytes + 100);
  EXPECT_EQ(heard.size(), TcpFrame::bytes + 100) << "the first connection still lives";
  auto newer = come(6, 1);
  const Bytes both = hear(newer, 2 * TcpFrame::bytes + 100);
  EXPECT_EQ(read_tcp_frame(both, 0).kind, Kind::welcome);
  EXPECT_TRUE(std::ranges::equal(std::span(both).subspan(TcpFrame::bytes), heard)) << "it comes again";
  EXPECT_TRUE(hear(first, 1).empty());
  auto newest = come(7, 2);
  send(0, 1, data);
  const Bytes last = hear(newest, 2 * TcpFrame::bytes + 100);
  EXPECT_EQ(read_tcp_frame(std::span(last).subspan(TcpFrame::bytes), 2).length, 100U);
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_EQ(rank(0).messages_sent, 2);
}

TEST_F(FalseMember, IsLostWithAFrameThatIsDamagedAgainAndAgain) {
  start(2);
  rank(1).place.clear();  // rank 0 cannot connect
  testing::internal::CaptureStderr();
  const Bytes data = message(100, 1);
  for (std::uint64_t connection = 1; connection <= 5; ++connection) {
    auto member = come(connection, 1);
    asio::write(member, asio::buffer(word({Kind::ack, 1, 0})));
    asio::write(member, asio::buffer(word({Kind::message, 1, 100, 12345})));
    asio::write(member, asio::buffer(data));
    EXPECT_EQ(hear(member, 2 * TcpFrame::bytes).size(), TcpFrame::bytes) << "a welcome, and the end";
  }
  EXPECT_EQ(rank(0).losses[1],
            "the data of frame 1 have a wrong checksum, 5 times, over as many connections: something between the two "
            "ranks changes what they send");
  EXPECT_TRUE(rank(0).came[1].empty());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      log.starts_with("sotto: rank 0: what rank 1 sent was changed on the way: the data of frame 1 have a wrong "
                      "checksum; it comes again over a new connection\n"))
      << log;
}

// The peer has nothing to send, but for acknowledgements: they do not say which frame comes next.
TEST_F(FalseMember, IsNotLostWithAcknowledgementsThatAreDamagedNowAndThen) {
  start(2);
  rank(1).place.clear();
  testing::internal::CaptureStderr();
  auto damaged = word({Kind::ack, 1, 0});
  damaged[0] ^= std::byte{1};
  for (std::uint64_t connection = 1; connection <= 8; ++connection) {
    auto member = come(connection, 1);
    asio::write(member, asio::buffer(word({Kind::ack, 1, 0})));
    asio::write(member, asio::buffer(damaged));
    EXPECT_EQ(hear(member, 2 * TcpFrame::bytes).size(), TcpFrame::bytes) << "a welcome, and the end";
  }
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(rank(0).losses.empty()) << rank(0).losses[1];
}

// Both ranks tried, and rank 1 took the connection of rank 0. What it had tried before comes later than its welcome.
TEST_F(FalseMember, DoesNotReplaceAConnectionThatItMadeLater) {
  start(2);
  const Bytes data = message(100, 1);
  send(0, 1, data);
  run_until([&] { return rank(1).came[0].size() == 1; });
  auto late = come(2, 1, 0);
  EXPECT_TRUE(hear(late, 1).empty());
  EXPECT_EQ(rank(0).lines.connections(), 1U);
  auto newer = come(2, 2, 1);
  EXPECT_EQ(read_tcp_frame(hear(newer, TcpFrame::bytes), 0).kind, Kind::welcome);
}

}  // namespace
}  // namespace sotto
