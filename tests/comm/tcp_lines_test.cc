// The connections of several ranks on one thread. Strangers, and members that send nonsense, are plain sockets.
#include "sotto/comm/tcp/lines.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <optional>
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
    write_hello({1, static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(all_.size()), 1, 0, 1, key}, hello);
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

TEST_F(Lines, NameAMemberThatSendsTooMuch) { expect_loss(frame({TcpFrame::Kind::message, 1, 1001}, 0), "too long"); }
TEST_F(Lines, NameAMemberThatRepeatsAFrame) {
  expect_loss(frame({TcpFrame::Kind::message, 0, 10}, 10), "frame 0 came where frame 1 was due");
}
// Its real door stands open; rank 0 goes there, and hears what the member sends.
TEST_F(Lines, SurviveAMemberThatSendsNoFrame) {
  start(2);
  testing::internal::CaptureStderr();
  auto member = false_member(0, read_tcp_place(rank(0).place).key);
  asio::write(member, asio::buffer(message(100, 7)));
  const Bytes data = message(100, 1);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("the header of frame 1 has a wrong checksum"),
            std::string::npos);
}
// The same, and rank 0 hears the message from its beginning.
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
  EXPECT_TRUE(rank(0).losses.contains(1)) << "and continue to say so";
}

TEST_F(Lines, SayThatAPlaceIsNone) {
  start(2);
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1 80 00", "elsewhere 80 00112233445566778899aabbccddeeff",
        "127.0.0.1 99999 00112233445566778899aabbccddeeff", "127.0.0.1 80 00112233445566778899aabbccddeefg",
        "127.0.0.1 80 00112233445566778899aabbccddeeff lts", "127.0.0.1 80 00112233445566778899aabbccddeeff tls",
        "127.0.0.1 80 00112233445566778899aabbccdd tls00112233"}) {
    EXPECT_THROW(read_tcp_place(bad), WireError) << bad;
  }
  rank(1).place = "nowhere";
  send(0, 1, {});
  EXPECT_EQ(rank(0).losses[1], "it left no address that this version of sotto reads");
}

TEST_F(Lines, CanBeReadOnTheWay) {
  constexpr std::string_view words = "what anybody can read";
  EXPECT_NE(hear(words).find(words), std::string::npos);
}

TEST(TcpHello, NamesAnotherVersion) {
  std::array<std::byte, TcpHello::bytes> bytes{};
  write_hello({1, 0, 2, 1, 0, 1, {}, {std::byte{7}}}, bytes);
  EXPECT_EQ(read_hello(bytes).place, TcpHello::Place{std::byte{7}});
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged.at(bit / 8) ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_THROW(read_hello(damaged), WireError) << bit;
  }
  bytes.at(24) = std::byte{2};  // whatever its checksum
  try {
    read_hello(bytes);
    ADD_FAILURE();
  } catch (const WireError& error) {
    EXPECT_STREQ(error.what(), "a hello of version 2 instead of 3");
  }
}

TEST(TcpHello, HasRoomForEveryPlace) {
  TcpPlace place{.address = asio::ip::make_address("fe80:1111:2222:3333:4444:5555:6666:7777%4294967295"),
                 .port = 65535,
                 .key = {std::byte{1}}};
  for (const bool secret : {false, true}) {
    for (const bool relay : {false, true}) {
      place.secret = secret ? std::optional(Tls::Fingerprint{std::byte{2}}) : std::nullopt;
      place.relay = relay ? std::optional(RelayId{std::byte{3}}) : std::nullopt;
      const auto read = read_tcp_place(packed(place));
      ASSERT_TRUE(read);
      EXPECT_EQ(text_of(*read), text_of(place));
      EXPECT_EQ(text_of(read_tcp_place(text_of(place))), text_of(place));
    }
  }
  EXPECT_FALSE(read_tcp_place(TcpHello::Place{}));
  TcpHello::Place nonsense = packed(place);
  nonsense.back() = nonsense[50] = std::byte{'x'};
  EXPECT_THROW(read_tcp_place(nonsense), WireError);
}

TEST(TcpFrame, IsReadAsItWasWritten) {
  std::array<std::byte, TcpFrame::bytes> bytes{};
  write_frame({TcpFrame::Kind::goodbye, 7, 1ULL << 40, 12345}, bytes);
  const TcpFrame read = read_tcp_frame(bytes, 7);
  EXPECT_EQ(read.kind, TcpFrame::Kind::goodbye);
  EXPECT_EQ(read.length, 1ULL << 40);
  EXPECT_EQ(read.crc, 12345U);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(read_tcp_frame(std::span(bytes).first(length), 7), WireError);
  EXPECT_THROW(read_tcp_frame(bytes, 8), WireError) << "another number";
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged.at(bit / 8) ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_THROW(read_tcp_frame(damaged, 7), DamagedFrame) << bit;
  }
  write_frame({TcpFrame::Kind::hello, 7, 0}, bytes);
  EXPECT_THROW(read_tcp_frame(bytes, 7), WireError) << "no header of a frame";
}

}  // namespace
}  // namespace sotto
