// Several connections between two ranks: messages come whole and in order, whatever happens to single connections.
#include "sotto/comm/tcp/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/tcp/frame.h"
#include "sotto/kernels/checksum.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::break_all;
using test::Bytes;
using test::message;
using test::Rank;
using test::Ranks;

constexpr std::size_t lanes = 4;
constexpr std::size_t least = lanes * least_stripe;  // the shortest message that is cut

// With a secret, or without one.
class Stripes : public Ranks, public testing::WithParamInterface<bool> {
 protected:
  Stripes() : Ranks(GetParam() ? std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}}) : nullptr, lanes) {}
};

TEST_P(Stripes, CarryMessagesOfAnySizeInOrder) {
  start(2);
  std::vector<Bytes> messages;
  int seed = 0;
  for (const std::size_t size :
       {std::size_t{10}, least, least - 1, std::size_t{0}, least + 1, least + 2, least + 3, std::size_t{3'000'001},
        std::size_t{5}, std::size_t{20'000'003}, std::size_t{9'000'000}, std::size_t{1}}) {
    messages.push_back(message(size, ++seed));
  }
  swap(messages);
}

TEST_P(Stripes, UseOneConnectionForShortMessages) {
  start(2);
  swap({message(100, 1), message(least - 1, 2)});
  EXPECT_EQ(rank(0).lines.connections(), 1U);
  EXPECT_EQ(rank(1).lines.connections(), 1U);
}

TEST_P(Stripes, UseAllConnectionsForLongMessages) {
  start(2);
  swap({message(least, 1)});
  EXPECT_EQ(rank(0).lines.connections(), lanes);
  EXPECT_EQ(rank(1).lines.connections(), lanes);
}

TEST_P(Stripes, AreMended) {
  start(2);
  std::vector<Bytes> messages;
  for (int i = 0; i < 100; ++i) {
    messages.push_back(
        message(std::array<std::size_t, 4>{1, 3'000'000, 5'000, 400'000}.at(static_cast<std::size_t>(i) % 4), i));
  }
  std::size_t breaks = 0;
  swap(messages, [&] {
    if (breaks == 10 || rank(0).came[1].size() + rank(1).came[0].size() <= 19 * breaks) return;
    break_all();
    ++breaks;
  });
  EXPECT_EQ(breaks, 10);
}

TEST_P(Stripes, WaitForRoom) {
  start(2);
  rank(1).reads = false;
  const std::vector<Bytes> messages{message(3'000'000, 1), message(10, 2), message(2'000'000, 3)};
  for (const Bytes& one : messages) send(0, 1, one);
  const auto end = Clock::now() + 100ms;
  while (Clock::now() < end) io_.run_one_until(end);
  EXPECT_TRUE(rank(1).came[0].empty());
  rank(1).reads = true;
  rank(1).lines.resume(0);
  run_until([&] { return rank(1).came[0].size() == 3; });
  EXPECT_TRUE(std::ranges::equal(rank(1).came[0], messages));
}

// What a rank sent before it ended comes, though its connections close in any order.
TEST_P(Stripes, BringWhatCameBeforeThePeerEnded) {
  for (int i = 0; i < 20; ++i) {
    start(2);
    const Bytes large = message(200'000, 1), small = message(10, 2);
    send(0, 1, large);
    send(0, 1, small);
    rank(1).reads = false;
    run_until([&] { return rank(0).messages_sent == 2; });
    rank(0).lines.close();
    rank(1).reads = true;
    rank(1).lines.resume(0);
    run_until([&] { return rank(1).losses.contains(0); });
    EXPECT_EQ(rank(1).losses[0], "the connection was closed: the peer ended or was killed");
    ASSERT_EQ(rank(1).came[0].size(), 2U);
    EXPECT_EQ(rank(1).came[0][0], large);
    before_.push_back(std::move(all_));
    all_.clear();
  }
}

TEST_P(Stripes, NameAPeerThatHasAnotherNumber) {
  for (const int streams : {1, 4}) {
    all_.push_back(std::make_unique<Rank>(io_, static_cast<int>(all_.size()), 2, tls_, all_, 1s, streams));
  }
  const Bytes data = message(10, 1);
  send(0, 1, data);
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_EQ(rank(0).losses[1], "streams: this rank has 1, and that one 4; give all ranks the same number");
}

INSTANTIATE_TEST_SUITE_P(Secret, Stripes, testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

// A member that announces nonsense is lost with a reason.
class Announcements : public Ranks {
 protected:
  Announcements() : Ranks(nullptr, lanes) {}

  void expect_loss(std::uint64_t length, std::uint64_t bytes, std::uint64_t first, const std::string& reason) {
    start(2);
    const std::string place = rank(0).place.substr(0, rank(0).place.find('\n'));
    const TcpPlace door = read_tcp_place(place);
    asio::ip::tcp::socket member(io_);
    member.connect({door.address, door.port});
    std::array<std::byte, TcpHello::bytes> hello{};
    write_hello({1, 0, 2, 1, 0, 1, door.key}, hello);
    std::array<std::byte, TcpFrame::bytes + 8> frame{};
    std::memcpy(frame.data() + TcpFrame::bytes, &length, sizeof(length));
    write_frame({TcpFrame::Kind::stripes, 1, bytes, kernels::crc32(0, std::span(frame).subspan(TcpFrame::bytes))},
                std::span(frame).first<TcpFrame::bytes>());
    std::array<std::byte, TcpFrame::bytes> stripe{};
    write_frame({TcpFrame::Kind::message, 2, first}, stripe);
    for (const auto part :
         {std::span<const std::byte>(hello), std::span<const std::byte>(frame), std::span<const std::byte>(stripe)}) {
      asio::write(member, asio::buffer(part.data(), part.size()));
    }
    run_until([&] { return rank(0).losses.contains(1); });
    EXPECT_NE(rank(0).losses[1].find(reason), std::string::npos) << rank(0).losses[1];
  }
};

TEST_F(Announcements, OfShortMessagesAreRefused) { expect_loss(least - 1, 8, 7, "which has no stripes"); }
TEST_F(Announcements, OfOtherSizesAreRefused) { expect_loss(least, 7, 7, "announces"); }
TEST_F(Announcements, HaveStripesOfTheRightLength) {
  expect_loss(least, 8, 7, "a stripe of 7 bytes came where 32768 were due");
}
TEST_F(Announcements, OfMoreThanTheOwnerTakesAreRefused) {
  expect_loss(std::uint64_t{1} << 54, 8, std::uint64_t{1} << 52, "too long");
}

}  // namespace
}  // namespace sotto
