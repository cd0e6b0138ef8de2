// A relay with members and strangers that are played by the test.
#include "sotto/comm/relay/relay.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "tests/comm/relay_rig.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::message;
using Tcp = asio::ip::tcp;

class RelayTest : public test::AtRelay {
 protected:
  // With so much time that only what is tested ends anything.
  explicit RelayTest(RelaySettings settings = {.patience = 10min, .grace = 10min}) : AtRelay(settings) {}

  // Two ranks that the relay has joined.
  struct Joined {
    Tcp::socket control, caller, taker;
  };
  Joined join(const RelayId& id) {
    auto control = serve(id);
    auto caller = come(Kind::call, id);
    const auto guest = word(control);
    EXPECT_TRUE(guest && guest->kind == Kind::guest);
    auto taker = come(Kind::take, guest->id);
    EXPECT_EQ(kind(taker), Kind::joined);
    EXPECT_EQ(kind(caller), Kind::joined);
    return {std::move(control), std::move(caller), std::move(taker)};
  }
  void expect_closed(Tcp::socket& socket) { EXPECT_TRUE(hear(socket, 1).empty()); }

  const RelayId id_ = new_relay_id();
};

TEST_F(RelayTest, CarriesBytesBothWaysAndTheirEnds) {
  auto [control, caller, taker] = join(id_);
  const Bytes there = message(100'000, 1), back = message(50'000, 2);
  asio::write(caller, asio::buffer(there));
  caller.shutdown(Tcp::socket::shutdown_send);
  EXPECT_EQ(hear(taker, there.size() + 1), there);
  asio::write(taker, asio::buffer(back));
  EXPECT_EQ(hear(caller, back.size()), back) << "the other direction continues";
  EXPECT_EQ(relay_->pairs(), 1U);
  taker.shutdown(Tcp::socket::shutdown_send);
  expect_closed(caller);
  run_until([&] { return relay_->pairs() == 0; });
}

TEST_F(RelayTest, ABrokenConnectionEndsBoth) {
  auto [control, caller, taker] = join(id_);
  caller.set_option(asio::socket_base::linger(true, 0));  // closing it sends a reset
  caller.close();
  expect_closed(taker);
  run_until([&] { return relay_->pairs() == 0; });
  EXPECT_EQ(relay_->doors(), 1U);
}

// Whoever does not read slows down the other one: the relay keeps little.
TEST_F(RelayTest, PassesBackPressureOn) {
  auto [control, caller, taker] = join(id_);
  caller.non_blocking(true);
  const Bytes data = message(1 << 16, 1);
  std::size_t sent = 0;
  for (int full = 0; full < 2000;) {
    asio::error_code error;
    const std::size_t bytes = caller.write_some(asio::buffer(data), error);
    sent += bytes;
    full = bytes > 0 ? 0 : full + 1;
    io_.poll();
    ASSERT_LT(sent, 64U << 20);
  }
  caller.shutdown(Tcp::socket::shutdown_send);
  EXPECT_EQ(hear(taker, sent + 1).size(), sent);
}

TEST_F(RelayTest, SaysWhoIsNotThere) {
  auto early = come(Kind::call, id_);
  EXPECT_EQ(kind(early), Kind::absent);
  auto control = serve(id_);
  auto guest = come(Kind::call, id_);
  EXPECT_EQ(kind(control), Kind::guest);
  asio::write(control, asio::buffer(write_relay_word({Kind::leave, id_})));
  EXPECT_EQ(kind(guest), Kind::gone) << "who waits hears it at once";
  expect_closed(control);
  auto late = come(Kind::call, id_);
  EXPECT_EQ(kind(late), Kind::gone);
  auto again = serve(id_);
  auto next = come(Kind::call, id_);
  EXPECT_EQ(kind(again), Kind::guest) << "it is there after all";
  auto question = come(Kind::ask, id_);
  const auto answer = word(question);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::here);
  EXPECT_EQ(answer->id, id_);
}

// The guest waits while its host's connection is made again.
TEST_F(RelayTest, GuestsOutliveABreakOfTheirHost) {
  auto control = serve(id_);
  auto guest = come(Kind::call, id_);
  EXPECT_EQ(kind(control), Kind::guest);
  control.close();
  auto other = come(Kind::call, id_);
  run_until([&] { return relay_->waiting() == 2; });
  auto again = come(Kind::serve, id_);
  const auto first = word(again), second = word(again);
  ASSERT_TRUE(first && second);
  for (const RelayId& token : {first->id, second->id}) {
    auto taker = come(Kind::take, token);
    EXPECT_EQ(kind(taker), Kind::joined);
  }
  EXPECT_EQ(kind(guest), Kind::joined);
  EXPECT_EQ(kind(other), Kind::joined);
}

// A rank knows before the relay that its connection is broken.
TEST_F(RelayTest, ANewerConnectionServesTheDoor) {
  auto control = serve(id_);
  auto newer = come(Kind::serve, id_);
  expect_closed(control);
  auto guest = come(Kind::call, id_);
  EXPECT_EQ(kind(newer), Kind::guest);
  EXPECT_EQ(relay_->doors(), 1U);
}

TEST_F(RelayTest, NoGuestIsTakenTwiceOrByAGuess) {
  auto control = serve(id_);
  auto guest = come(Kind::call, id_);
  const auto announced = word(control);
  ASSERT_TRUE(announced);
  auto guess = come(Kind::take, new_relay_id());
  expect_closed(guess);
  auto taker = come(Kind::take, announced->id);
  EXPECT_EQ(kind(taker), Kind::joined);
  auto second = come(Kind::take, announced->id);
  expect_closed(second);
}

TEST_F(RelayTest, AGuestThatLeavesOrTalksIsForgotten) {
  auto control = serve(id_);
  auto one = come(Kind::call, id_), other = come(Kind::call, id_);
  run_until([&] { return relay_->waiting() == 2; });
  one.close();
  asio::write(other, asio::buffer(message(10, 1)));
  run_until([&] { return relay_->waiting() == 0; });
  const auto token = word(control);
  ASSERT_TRUE(token);
  auto taker = come(Kind::take, token->id);
  expect_closed(taker);
}

// What a relay says, or what no one says, is no beginning; and who serves may only leave.
TEST_F(RelayTest, GarbageIsRefused) {
  std::vector<Bytes> all{message(24, 1), message(1000, 2)};
  for (const Kind wrong : {Kind::here, Kind::guest, Kind::joined, Kind::gone, Kind::absent, Kind::leave}) {
    const RelayRoom room = write_relay_word({wrong, id_});
    all.emplace_back(room.begin(), room.end());
  }
  for (const std::size_t at : {0U, 3U, 4U, 7U}) {
    RelayRoom room = write_relay_word({Kind::serve, id_});
    room.at(at) ^= std::byte{0x40};
    all.emplace_back(room.begin(), room.end());
  }
  for (const Bytes& bytes : all) {
    auto socket = come();
    asio::write(socket, asio::buffer(bytes));
    EXPECT_TRUE(hear(socket, 1).empty());
  }
  EXPECT_EQ(relay_->doors(), 0U);
  auto control = serve(id_);
  asio::write(control, asio::buffer(write_relay_word({Kind::serve, id_})));
  expect_closed(control);
  ASSERT_FALSE(log_.empty());
  EXPECT_TRUE(log_.front().starts_with("relay: refused a connection from 127.0.0.1 port ")) << log_.front();
}

// In turn: so many connections leave nothing behind, and the log has a line a second.
TEST_F(RelayTest, ManyStrangersHaveNoEffect) {
  for (int i = 0; i < 2; ++i) add(2, endpoint());
  expect_mail(0, 1);
  const auto begun = Clock::now();
  const Bytes garbage = message(24, 1);
  for (int i = 0; i < 10'000; ++i) {
    auto socket = come();
    asio::write(socket, asio::buffer(garbage.data(), i % 2 == 0 ? 24 : 10));
    if (i % 2 == 0) expect_closed(socket);
    if (i % 1000 == 0) expect_mail(1, 0);
  }
  run_until([&] { return relay_->waiting() == 0; });
  expect_mail(0, 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun).count();
  EXPECT_LE(static_cast<std::ptrdiff_t>(log_.size()), seconds + 1);
  EXPECT_EQ(relay_->pairs(), 1U);
  EXPECT_EQ(relay_->doors(), 2U);
}

class CrowdedRelay : public RelayTest {
 protected:
  CrowdedRelay()
      : RelayTest({.patience = 10min, .grace = 10min, .most_waiting = 20, .most_guests = 5, .most_doors = 3}) {}
};

TEST_F(CrowdedRelay, TheOldestGiveWay) {
  for (int i = 0; i < 2; ++i) add(2, endpoint());
  run_until([&] { return relay_->doors() == 2; });
  std::vector<Tcp::socket> silent;
  silent.reserve(50);
  for (int i = 0; i < 50; ++i) silent.push_back(come());
  expect_mail(0, 1);
  EXPECT_LE(relay_->waiting(), 20U);
  expect_closed(silent.front());
  ASSERT_FALSE(log_.empty());
  EXPECT_TRUE(log_.front().ends_with(": it said nothing, and many others came")) << log_.front();
  auto control = serve(id_);
  std::vector<Tcp::socket> guests;
  for (int i = 0; i < 8; ++i) {
    guests.push_back(come(Kind::call, id_));
    EXPECT_EQ(kind(control), Kind::guest);
  }
  for (int i = 0; i < 3; ++i) expect_closed(guests.at(static_cast<std::size_t>(i)));
  auto fourth = come(Kind::serve, new_relay_id());
  expect_closed(fourth);
  EXPECT_EQ(relay_->doors(), 3U);
  expect_mail(1, 0);
}

class ImpatientRelay : public RelayTest {
 protected:
  ImpatientRelay() : RelayTest({.patience = 50ms, .grace = 50ms}) {}
};

TEST_F(ImpatientRelay, EndsWhatTakesTooLong) {
  auto control = serve(id_);
  auto guest = come(Kind::call, id_);  // nobody takes it
  expect_closed(guest);
  auto slow = come();  // a byte now and then
  const RelayRoom bytes = write_relay_word({Kind::serve, new_relay_id()});
  asio::write(slow, asio::buffer(bytes.data(), 23));
  expect_closed(slow);
  control.close();
  run_until([&] { return relay_->doors() == 0; });
  auto late = come(Kind::call, id_);
  EXPECT_EQ(kind(late), Kind::gone);
}

TEST_F(RelayTest, GoesOnWhenThereWereTooManyOpenFiles) {
  for (int i = 0; i < 2; ++i) add(2, endpoint());
  run_until([&] { return relay_->doors() == 2; });
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{std::min<rlim_t>(200, before.rlim_cur), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Tcp::socket> strangers;
  for (asio::error_code full; !full; io_.poll()) {  // then there are no more files, for the relay either
    Tcp::socket socket(io_);
    socket.open(Tcp::v4(), full);
    if (!full) socket.connect(endpoint(), full);
    if (!full) strangers.push_back(std::move(socket));
  }
  EXPECT_GT(strangers.size(), 50U);
  for (int i = 0; i < 100; ++i) io_.poll();
  strangers.erase(strangers.begin(), strangers.begin() + static_cast<std::ptrdiff_t>(strangers.size() / 2));
  expect_mail(0, 1);
  strangers.clear();
  expect_mail(1, 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(RelayTest, APortInUseIsAnError) { EXPECT_THROW(Relay(io_, endpoint()), CommError); }

}  // namespace
}  // namespace sotto
