// The two halves of a line, without sockets: what one gives, the other takes, and connections break anywhere.
#include "sotto/comm/tcp/outgoing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/tcp/incoming.h"
#include "sotto/core/error.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using test::Bytes;
using test::message;
using Kind = TcpFrame::Kind;

constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();

// Takes everything, and says where a message begins a second time.
struct Taker final : TcpOwner {
  std::optional<std::string> place_of(int) override { return std::nullopt; }
  std::optional<std::span<std::byte>> room_for(int, const TcpFrame& frame) override {
    ++rooms;
    return std::span(coming = Bytes(frame.length));
  }
  bool received(int, const TcpFrame& frame) override {
    came.push_back(std::move(coming));
    return frame.kind == Kind::message;
  }
  void sent(int) override {}
  void lost(int, const std::string&) override {}

  std::size_t rooms = 0;
  Bytes coming;
  std::deque<Bytes> came;
};

// Writes at most `most` bytes to the other side, which gets all but the last `lost` of them. Returns the messages that
// are complete.
std::size_t carry(TcpOutgoing& from, TcpIncoming& to, TcpOutgoing& answers, std::size_t most, std::size_t lost = 0) {
  std::size_t complete = 0;
  Bytes way;
  while (most > 0) {
    const auto parts = from.next();
    const auto part = parts[0].empty() ? parts[1] : parts[0];
    if (part.empty()) break;
    const std::size_t count = std::min(most, part.size());
    way.insert(way.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    complete += from.written(count);
    most -= count;
  }
  for (auto rest = std::span<const std::byte>(way).first(way.size() - std::min(way.size(), lost)); !rest.empty();) {
    std::size_t taken = 0;
    for (const auto room : to.space()) {
      const std::size_t count = std::min(room.size(), rest.size());
      std::ranges::copy(rest.first(count), room.begin());
      rest = rest.subspan(count);
      taken += count;
    }
    to.took(taken);
    to.use(answers);
    if (to.must_acknowledge()) answers.say(Kind::ack, to.acknowledge());
  }
  return complete;
}

struct Ends {
  Taker owner, sender;
  TcpOutgoing there, back;
  TcpIncoming arrivals{owner, 1}, answers{sender, 0};

  std::size_t begin_again() {
    arrivals.begin_again();
    answers.begin_again();
    back.begin_again(answers.due());
    return there.begin_again(arrivals.due());
  }
};

TEST(TcpOutgoing, GoesOnWhereTheConnectionEnded) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random); };
  Ends ends;
  std::deque<Bytes> messages;
  for (int i = 0; i < 60; ++i) {
    const std::array<std::size_t, 5> lengths{0, below(100), below(10'000), below(600'000), TcpFrame::piece * below(4)};
    messages.push_back(message(lengths.at(below(4)), i));
  }
  for (const Bytes& one : messages) ends.there.add(Kind::message, one);
  std::size_t complete = 0, cuts = 0;
  while (ends.owner.came.size() < messages.size()) {
    const std::size_t most = std::array{below(30), below(2000), below(1'000'000)}.at(below(2));
    complete += carry(ends.there, ends.arrivals, ends.back, most, below(3) == 0 ? 0 : below(most));
    if (below(1) == 0) carry(ends.back, ends.answers, ends.there, below(60));
    complete += ends.begin_again();
    ++cuts;
  }
  EXPECT_EQ(ends.owner.came, messages);
  EXPECT_EQ(ends.owner.rooms, messages.size()) << "room is asked for once";
  EXPECT_EQ(complete + carry(ends.there, ends.arrivals, ends.back, endless), messages.size());
  EXPECT_GT(cuts, 60U);
}

TEST(TcpOutgoing, NeedsNoAcknowledgementToGoOn) {
  Ends ends;
  const Bytes data = message(5'000'001, 1);
  for (int i = 0; i < 3; ++i) {
    ends.there.add(Kind::message, data);
    EXPECT_EQ(carry(ends.there, ends.arrivals, ends.back, endless), 1U);
    EXPECT_GE(ends.there.awaited(), TcpOutgoing::unacknowledged_bytes);
  }
  Taker other;
  ends.arrivals.begin_again();
  TcpIncoming late(other, 1);  // has nothing of it
  EXPECT_EQ(ends.there.begin_again(1), 0U);
  carry(ends.there, late, ends.back, endless);
  EXPECT_EQ(other.came, (std::deque<Bytes>{data, data, data}));
}

TEST(TcpOutgoing, KeepsWhatIsNotAcknowledged) {
  Ends ends;
  const Bytes data = message(100'000, 1);
  for (int i = 0; i < 100; ++i) {
    ends.there.add(Kind::message, data);
    EXPECT_EQ(carry(ends.there, ends.arrivals, ends.back, endless), 1U);
    carry(ends.back, ends.answers, ends.there, endless);
    EXPECT_EQ(ends.there.awaited(), 0U);
  }
  EXPECT_THROW(ends.there.begin_again(50), WireError) << "this is gone";
  EXPECT_EQ(ends.there.begin_again(101), 0U);
}

TEST(TcpOutgoing, KeepsNoMoreThanItMay) {
  Ends ends;
  const Bytes data = message(TcpOutgoing::most_kept, 1), small = message(10, 2);
  ends.there.add(Kind::message, data);
  ends.there.add(Kind::message, small);
  EXPECT_EQ(carry(ends.there, ends.arrivals, ends.back, endless), 1U);
  carry(ends.back, ends.answers, ends.there, endless);
  EXPECT_EQ(carry(ends.there, ends.arrivals, ends.back, endless), 1U);
  EXPECT_EQ(ends.owner.came.back(), small);
}

TEST(TcpOutgoing, RefusesFalseAcknowledgements) {
  Ends ends;
  const Bytes data = message(100, 1);
  EXPECT_THROW(ends.there.acknowledge(2), WireError);
  for (int i = 0; i < 3; ++i) ends.there.add(Kind::message, data);
  carry(ends.there, ends.arrivals, ends.back, 3 * (TcpFrame::bytes + 100));
  EXPECT_THROW(ends.there.acknowledge(5), WireError);
  EXPECT_THROW(ends.there.begin_again(5), WireError);
  EXPECT_THROW(ends.there.acknowledge(0), WireError);
  ends.there.acknowledge(3);
  EXPECT_THROW(ends.there.acknowledge(2), WireError);
  EXPECT_THROW(ends.there.begin_again(2), WireError);
  EXPECT_EQ(ends.there.begin_again(3), 0U);
  EXPECT_THROW(ends.there.acknowledge(4), WireError) << "this connection has not carried frame 3 yet";
}

// The bytes of one frame after a message of two pieces has begun.
TEST(TcpIncoming, RefusesWhatDoesNotContinueAMessage) {
  for (const TcpFrame& wrong :
       {TcpFrame{Kind::message, 2, 10}, TcpFrame{Kind::more, 2, 11}, TcpFrame{Kind::more, 3, 10},
        TcpFrame{Kind::welcome, 2, 0}, TcpFrame{Kind::goodbye, 2, 0}}) {
    Ends ends;
    const Bytes data = message(TcpFrame::piece + 10, 1);
    ends.there.add(Kind::message, data);
    carry(ends.there, ends.arrivals, ends.back, TcpFrame::bytes + TcpFrame::piece);
    write_frame(wrong, ends.arrivals.space()[1].first<TcpFrame::bytes>());
    ends.arrivals.took(TcpFrame::bytes);
    EXPECT_THROW(ends.arrivals.use(ends.back), WireError) << static_cast<int>(wrong.kind);
  }
}

TEST(TcpIncoming, RefusesAPieceOfNoMessage) {
  for (const Kind kind : {Kind::more, Kind::hello, Kind::welcome}) {
    Ends ends;
    write_frame({kind, 1, 0}, ends.arrivals.space()[1].first<TcpFrame::bytes>());
    ends.arrivals.took(TcpFrame::bytes);
    EXPECT_THROW(ends.arrivals.use(ends.back), WireError) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace sotto
