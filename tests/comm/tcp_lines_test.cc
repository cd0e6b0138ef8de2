// The connections of several ranks on one thread. Strangers, and members that send nonsense, are plain sockets.
#include "sotto/comm/tcp_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using test::Bytes;
using test::message;
using test::Ranks;

class Lines : public Ranks {
 protected:
  // A connection that claims to be rank 1, as a member would.
  asio::ip::tcp::socket false_member(int to, TcpKey key) {
    auto socket = stranger(to);
    std::array<std::byte, TcpHello::bytes> hello{};
    write_hello({1, static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(all_.size()), 1, 0, 1, key, ""}, hello);
    asio::write(socket, asio::buffer(hello));
    return socket;
  }
  void expect_loss(const Bytes& data, const std::string& reason) {
    start(2);
    rank(0).most = 1000;
    auto member = false_member(0, read_tcp_place(rank(0).place).key);
    asio::write(member, asio::buffer(data));
    member.close();
    run_until([&] { return rank(0).losses.contains(1); });
    EXPECT_NE(rank(0).losses[1].find(reason), std::string::npos) << rank(0).losses[1];
    EXPECT_TRUE(rank(0).came[1].empty());
  }
};

Bytes frame(TcpFrame head, std::size_t data) {
  Bytes bytes(TcpFrame::bytes + data);
  write_frame(head, std::span(bytes).first<TcpFrame::bytes>());
  return bytes;
}

TEST_F(Lines, AreMadeToThePeersThatAreUsed) {
  start(4);
  const Bytes data = message(100, 1);
  send(0, 2, data);
  run_until([&] { return rank(2).came[0].size() == 1; });
  EXPECT_EQ(rank(2).came[0][0], data);
  EXPECT_EQ(rank(0).lines.connections(), 1U);
  EXPECT_EQ(rank(2).lines.connections(), 1U);
  EXPECT_EQ(rank(1).lines.connections() + rank(3).lines.connections(), 0U);
}

TEST_F(Lines, CarryLargeMessagesInBothDirectionsAtOnce) { cross(); }

TEST_F(Lines, WaitForRoom) {
  start(2);
  rank(1).reads = false;
  const Bytes data = message(100'000, 1);
  for (int i = 0; i < 300; ++i) send(0, 1, data);  // more than the system buffers
  for (int i = 0; i < 2000; ++i) io_.poll_one();
  EXPECT_LT(rank(0).messages_sent, 300);
  EXPECT_TRUE(rank(1).came[0].empty());
  rank(1).reads = true;
  rank(1).lines.resume(0);
  run_until([&] { return rank(1).came[0].size() == 300; });
  EXPECT_EQ(rank(1).came[0].back(), data);
}

TEST_F(Lines, StrangersHaveNoEffect) { crowd(); }

TEST_F(Lines, AMemberWithAnotherKeyHasNoEffect) {
  start(2);
  const auto other = false_member(0, {});
  const Bytes data = message(1000, 2);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_TRUE(rank(0).losses.empty());
}

TEST_F(Lines, AMemberThatComesTwiceIsLetInOnce) {
  start(2);
  const Bytes data = message(1000, 2);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  auto again = false_member(0, read_tcp_place(rank(0).place).key);
  bool closed = false;
  std::array<std::byte, 1> byte{};
  asio::async_read(again, asio::buffer(byte),
                   [&](const asio::error_code& error, std::size_t) { closed = bool(error); });
  run_until([&] { return closed; });
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 2; });
}

TEST_F(Lines, NameAMemberThatSendsNoFrame) { expect_loss(message(100, 7), "begins no frame"); }
TEST_F(Lines, NameAMemberThatSendsTooMuch) { expect_loss(frame({TcpFrame::Kind::message, 1, 1001}, 0), "too long"); }
TEST_F(Lines, NameAMemberThatRepeatsAFrame) {
  expect_loss(frame({TcpFrame::Kind::message, 0, 10}, 10), "frame 0 came where frame 1 was due");
}
// Its real door stands open; rank 0 goes there, and hears the same message from its beginning.
TEST_F(Lines, SurviveAMemberThatClosesInTheMiddleOfAMessage) {
  start(2);
  auto member = false_member(0, read_tcp_place(rank(0).place).key);
  asio::write(member, asio::buffer(frame({TcpFrame::Kind::message, 1, 100}, 10)));
  member.close();
  const Bytes data = message(100, 1);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_TRUE(rank(0).losses.empty());
}

TEST_F(Lines, SayThatNobodyListens) {
  start(2);
  rank(1).lines.close();
  send(0, 1, {});
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_EQ(rank(0).losses[1], "the connection was closed: the peer ended or was killed");
  rank(0).losses.clear();
  rank(0).lines.resume(1);
  EXPECT_TRUE(rank(0).losses.contains(1)) << "and go on to say so";
}

TEST_F(Lines, SayThatAPlaceIsNone) {
  start(2);
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1 80 00", "elsewhere 80 00112233445566778899aabbccddeeff",
        "127.0.0.1 99999 00112233445566778899aabbccddeeff", "127.0.0.1 80 00112233445566778899aabbccddeefg",
        "127.0.0.1 80 00112233445566778899aabbccddeeff lts", "127.0.0.1 80 00112233445566778899aabbccdd tls"}) {
    EXPECT_THROW(read_tcp_place(bad), WireError) << bad;
  }
  rank(1).place = "nowhere";
  send(0, 1, {});
  EXPECT_EQ(rank(0).losses[1], "no address was left");
}

TEST_F(Lines, CanBeReadOnTheWay) {
  constexpr std::string_view words = "what anybody can read";
  EXPECT_NE(hear(words).find(words), std::string::npos);
}

TEST(TcpFrame, IsReadAsItWasWritten) {
  std::array<std::byte, TcpFrame::bytes> bytes{};
  write_frame({TcpFrame::Kind::goodbye, 7, 1ULL << 40}, bytes);
  const TcpFrame read = read_tcp_frame(bytes, 7);
  EXPECT_EQ(read.kind, TcpFrame::Kind::goodbye);
  EXPECT_EQ(read.length, 1ULL << 40);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(read_tcp_frame(std::span(bytes).first(length), 7), WireError);
  for (const std::size_t at : {0U, 3U, 4U, 5U, 8U}) {
    auto damaged = bytes;
    damaged.at(at) ^= std::byte{64};
    EXPECT_THROW(read_tcp_frame(damaged, 7), WireError) << at;
  }
}

}  // namespace
}  // namespace sotto
