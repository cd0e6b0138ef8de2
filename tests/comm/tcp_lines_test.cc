// The connections of several ranks on one thread. Strangers, and members that send nonsense, are plain sockets.
#include "sotto/comm/tcp_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

// A rank that takes every message of at most `most` bytes.
class Rank final : public TcpLines::Owner {
 public:
  Rank(asio::io_context& io, int rank, int size, const std::vector<std::unique_ptr<Rank>>& all)
      : lines(io, rank, size, asio::ip::address_v4::loopback(), *this), all_(all) {}

  std::optional<std::string> place_of(int peer) override { return all_.at(static_cast<std::size_t>(peer))->place; }
  std::optional<std::span<std::byte>> room_for(int peer, const TcpFrame& frame) override {
    if (frame.length > most) throw WireError("too long");
    if (!reads) return std::nullopt;
    return std::span(coming[peer] = Bytes(frame.length));
  }
  bool received(int peer, const TcpFrame& /*frame*/) override {
    came[peer].push_back(std::move(coming[peer]));
    return true;
  }
  void sent(int /*peer*/) override { ++messages_sent; }
  void lost(int peer, const std::string& reason) override { losses[peer] = reason; }

  std::size_t most = 1 << 26;
  bool reads = true;
  std::map<int, Bytes> coming;
  std::map<int, std::deque<Bytes>> came;
  std::map<int, std::string> losses;
  int messages_sent = 0;
  TcpLines lines;
  std::string place = lines.place();

 private:
  const std::vector<std::unique_ptr<Rank>>& all_;
};

class Lines : public testing::Test {
 protected:
  void start(int size) {
    for (int rank = 0; rank < size; ++rank) all_.push_back(std::make_unique<Rank>(io_, rank, size, all_));
  }
  Rank& rank(int number) { return *all_.at(static_cast<std::size_t>(number)); }
  void run_until(const std::function<bool()>& done) {
    const auto end = Clock::now() + 30s;
    while (!done() && Clock::now() < end) io_.run_one_until(end);
    ASSERT_TRUE(done());
  }
  void send(int from, int to, const Bytes& data) { rank(from).lines.send(to, TcpFrame::Kind::message, data); }

  // A connection to a rank's door.
  asio::ip::tcp::socket stranger(int to) {
    const TcpPlace place = read_tcp_place(rank(to).place);
    asio::ip::tcp::socket socket(io_);
    socket.connect({place.address, place.port});
    return socket;
  }
  // A connection that claims to be rank 1, as a member would.
  asio::ip::tcp::socket false_member(int to, TcpKey key) {
    auto socket = stranger(to);
    std::array<std::byte, TcpHello::bytes> hello{};
    write_hello({1, static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(all_.size()), key}, hello);
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

  asio::io_context io_{1};
  std::vector<std::unique_ptr<Rank>> all_;
};

Bytes message(std::size_t length, int seed) {
  Bytes data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return data;
}

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

TEST_F(Lines, CarryLargeMessagesInBothDirectionsAtOnce) {
  start(2);
  const std::array<Bytes, 2> large{message(20'000'001, 1), message(30'000'000, 2)};
  const Bytes small = message(10, 3), empty;
  for (const int from : {0, 1}) {
    send(from, 1 - from, large.at(static_cast<std::size_t>(from)));
    send(from, 1 - from, empty);
    send(from, 1 - from, small);
  }
  run_until([&] { return rank(0).came[1].size() == 3 && rank(1).came[0].size() == 3; });
  EXPECT_EQ(rank(0).came[1], (std::deque<Bytes>{large[1], empty, small}));
  EXPECT_EQ(rank(1).came[0], (std::deque<Bytes>{large[0], empty, small}));
  EXPECT_EQ(rank(0).messages_sent, 3);
  EXPECT_EQ(rank(0).lines.connections(), 1U) << "one for both directions";
  EXPECT_EQ(rank(1).lines.connections(), 1U);
}

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

TEST_F(Lines, StrangersHaveNoEffect) {
  start(2);
  std::vector<asio::ip::tcp::socket> strangers;
  for (std::size_t i = 0; i < 2 * TcpDoor::most_guests; ++i) strangers.push_back(stranger(0));  // all silent
  for (std::size_t i = 0; i < strangers.size(); i += 3) asio::write(strangers[i], asio::buffer(message(200, 1)));
  strangers.push_back(false_member(0, {}));
  const Bytes data = message(1000, 2);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_EQ(rank(0).lines.connections(), 1U);
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
TEST_F(Lines, NameAMemberThatClosesInTheMiddleOfAMessage) {
  expect_loss(frame({TcpFrame::Kind::message, 1, 100}, 10), "the connection was closed: the peer ended or was killed");
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
        "127.0.0.1 99999 00112233445566778899aabbccddeeff", "127.0.0.1 80 00112233445566778899aabbccddeefg"}) {
    EXPECT_THROW(read_tcp_place(bad), WireError) << bad;
  }
  rank(1).place = "nowhere";
  send(0, 1, {});
  EXPECT_EQ(rank(0).losses[1], "no address was left");
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
