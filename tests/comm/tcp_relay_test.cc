// Ranks behind a relay: they reach each other, no message is lost, and nobody on the way can read anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "sotto/comm/deadline.h"
#include "sotto/comm/tcp/through_relay.h"
#include "sotto/core/text.h"
#include "tests/comm/middlebox.h"
#include "tests/comm/relay_rig.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::message;
using Tcp = asio::ip::tcp;

// Forwards all connections to a port, and keeps what goes over them.
class Ear {
 public:
  Ear(asio::io_context& io, const Tcp::endpoint& to) : io_(io), to_(to), acceptor_(io, {to.address(), 0}) { accept(); }
  Tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  std::string heard;

 private:
  struct Pair {
    explicit Pair(asio::io_context& io) : near(io), far(io) {}
    Tcp::socket near, far;
    std::array<std::array<char, 4096>, 2> rooms{};
  };
  void accept() {
    auto pair = std::make_shared<Pair>(io_);
    acceptor_.async_accept(pair->near, [this, pair](const asio::error_code& error) {
      if (error) return;
      pair->far.connect(to_);
      forward(pair, pair->near, pair->far, 0);
      forward(pair, pair->far, pair->near, 1);
      accept();
    });
  }
  void forward(const std::shared_ptr<Pair>& pair, Tcp::socket& from, Tcp::socket& to, std::size_t way) {
    from.async_read_some(asio::buffer(pair->rooms.at(way)),
                         [this, pair, &from, &to, way](const asio::error_code& error, std::size_t bytes) {
                           asio::error_code ignored;
                           if (error) return static_cast<void>(to.close(ignored));
                           heard.append(pair->rooms.at(way).data(), bytes);
                           asio::write(to, asio::buffer(pair->rooms.at(way), bytes), ignored);
                           forward(pair, from, to, way);
                         });
  }

  asio::io_context& io_;
  Tcp::endpoint to_;
  Tcp::acceptor acceptor_;
};

class Relayed : public test::AtRelay {
 protected:
  using AtRelay::AtRelay;
  void behind(int size, int streams = 1) {
    for (int i = 0; i < size; ++i) add(size, endpoint(), streams);
  }
  static std::vector<Bytes> many() {
    std::vector<Bytes> messages;
    messages.reserve(100);
    for (int i = 0; i < 100; ++i) {
      messages.push_back(message(
          std::array<std::size_t, 6>{1, 100, 5'000, 300'000, 0, 3'000'000}.at(static_cast<std::size_t>(i) % 6), i));
    }
    return messages;
  }
};

TEST_F(Relayed, RanksReachEachOther) {
  behind(3);
  for (const int from : {0, 1, 2}) {
    for (const int to : {0, 1, 2}) {
      if (from != to) expect_mail(from, to, 1'000'000);
    }
  }
  EXPECT_EQ(relay_->pairs(), 3U);
  EXPECT_EQ(relay_->doors(), 3U);
  EXPECT_EQ(relay_->waiting(), 0U);
  EXPECT_TRUE(log_.empty()) << log_.front();
}

TEST_F(Relayed, LongMessagesOverSeveralConnections) {
  behind(2, 3);
  swap({message(3'000'000, 1), message(10, 2), message(20'000'000, 3)});
  EXPECT_EQ(relay_->pairs(), 3U);
}

TEST_F(Relayed, ARankThatOthersReachNeedsNone) {
  add(3, std::nullopt);
  for (int i = 0; i < 2; ++i) add(3, endpoint());
  expect_mail(1, 0);
  expect_mail(0, 1);
  EXPECT_EQ(relay_->pairs(), 0U) << "they are connected directly";
  expect_mail(1, 2);
  EXPECT_EQ(relay_->pairs(), 1U);
  expect_mail(0, 2);
  EXPECT_EQ(relay_->pairs(), 2U) << "rank 2 did not come by itself";
}

TEST_F(Relayed, APeerThatClosesItsDoorIsLost) {
  behind(3);
  expect_mail(0, 1);
  rank(1).lines.close();
  for (const int from : {0, 2}) {
    post(from, 1);
    run_until([&] { return rank(from).losses.contains(1); });
    EXPECT_EQ(rank(from).losses[1], "the connection was closed: the peer ended or was killed");
  }
  expect_mail(2, 0);
}

TEST_F(Relayed, AnotherSecretIsFound) {
  add(2, endpoint());
  tls_ = std::make_shared<const Tls>(Secret{std::byte{7}});
  add(2, endpoint());
  post(1, 0);
  run_until([&] { return rank(1).losses.contains(0); });
  EXPECT_EQ(rank(1).losses[0], "its secret is another one; give all ranks the same one");
}

TEST_F(Relayed, NothingIsLostWhenTheRelayStartsAnew) {
  behind(2);
  std::size_t restarts = 0;
  swap(many(), [&] {
    if (restarts == 5 || rank(0).came[1].size() + rank(1).came[0].size() <= 30 * restarts) return;
    const Tcp::endpoint same = endpoint();
    relay_.reset();
    start_relay(same);
    ++restarts;
  });
  EXPECT_EQ(restarts, 5U);
}

// The relay comes later than the ranks.
TEST_F(Relayed, RanksWaitForTheRelay) {
  const Tcp::endpoint same = endpoint();
  relay_.reset();
  for (int i = 0; i < 2; ++i) add(2, same);
  post(0, 1);
  const auto end = Clock::now() + 100ms;
  while (Clock::now() < end) io_.run_one_until(end);
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_NE(rank(0).lines.trouble(1).find("the relay: Connection refused"), std::string::npos)
      << rank(0).lines.trouble(1);
  start_relay(same);
  run_until([&] { return rank(1).came[0].size() == 1; });
}

class RelayedAndCut : public Relayed {
 protected:
  RelayedAndCut() : Relayed({.grace = 10min}) {}
};

TEST_F(RelayedAndCut, NothingIsLost) {
  behind(2);
  std::size_t breaks = 0;
  swap(many(), [&] {
    if (breaks == 15 || rank(0).came[1].size() + rank(1).came[0].size() <= 13 * breaks) return;
    test::break_all();
    ++breaks;
  });
  EXPECT_EQ(breaks, 15U);
}

// Somebody on the way from rank 1 to the relay does some harm to its connection there, or to the next one: that with
// which it takes a peer, or calls one.
class RelayedAndHarmed : public Relayed, public testing::WithParamInterface<std::tuple<int, int>> {
 protected:
  void expect_mended(test::Middlebox::Deed deed, const std::vector<std::size_t>& places) {
    const auto [connection, sender] = GetParam();
    for (const std::size_t way : {0U, 1U}) {
      for (const std::size_t at : places) {
        test::Middlebox& box = boxes_.emplace_back(io_, endpoint().port(), deed, way, at, 1, connection);
        add(2, endpoint(), 1, 8s);  // so that a connection that is silent for two seconds is replaced
        add(2, Tcp::endpoint{endpoint().address(), box.port()}, 1, 8s);
        expect_mail(sender, 1 - sender);
        EXPECT_TRUE(rank(0).losses.empty() && rank(1).losses.empty()) << way << " " << at;
        for (const auto& one : all_) one->lines.close();
        before_.push_back(std::move(all_));
        all_.clear();
        harms_ += box.done;
      }
    }
  }
  std::deque<test::Middlebox> boxes_;
  int harms_ = 0;
};

TEST_P(RelayedAndHarmed, ABitThatChangesInAWordIsFound) {
  const std::vector<std::size_t> places{0, 4, 5, 7, 8, 23, 24, 27};
  testing::internal::CaptureStderr();
  expect_mended(test::Middlebox::Deed::flip, places);
  testing::internal::GetCapturedStderr();
  EXPECT_GE(harms_, static_cast<int>(places.size()));  // the relay may have nothing to say to a rank that calls
}

TEST_P(RelayedAndHarmed, AConnectionThatIsSwallowedIsReplaced) {
  testing::internal::CaptureStderr();
  expect_mended(test::Middlebox::Deed::swallow, {0, RelayWord::bytes});
  testing::internal::GetCapturedStderr();
  EXPECT_GE(harms_, 2);
}

INSTANTIATE_TEST_SUITE_P(ByConnectionAndSender, RelayedAndHarmed,
                         testing::Combine(testing::Values(0, 1), testing::Values(0, 1)));

TEST_F(Relayed, NobodyOnTheWayCanReadAnything) {
  std::list<Ear> ears;
  for (int i = 0; i < 2; ++i) add(2, ears.emplace_back(io_, endpoint()).endpoint());
  const std::string words = "the gradient of the loss ";
  std::string text;
  while (text.size() < 1'000'000) text += words;
  const auto said = std::as_bytes(std::span(text));
  const Bytes data(said.begin(), said.end());
  for (const int from : {0, 1}) {
    send(from, 1 - from, data);
    run_until([&] { return rank(1 - from).came[from].size() == 1; });
    EXPECT_EQ(rank(1 - from).came[from].front(), data);
  }
  for (const Ear& ear : ears) {
    EXPECT_GT(ear.heard.size(), 2 * text.size());
    EXPECT_NE(ear.heard.find("srel"), std::string::npos) << "the word to the relay";
    EXPECT_EQ(ear.heard.find("gradient"), std::string::npos);
    EXPECT_EQ(ear.heard.find("soto"), std::string::npos) << "the header of a frame";
  }
}

TEST_F(Relayed, TheRelayIsFound) {
  const std::string place = "127.0.0.1:" + std::to_string(endpoint().port());
  Tcp::acceptor other(io_, {asio::ip::address_v4::loopback(), 0});  // it answers something else
  const std::function<void()> answer = [&] {
    other.async_accept([&](const asio::error_code& stopped, Tcp::socket socket) {
      if (stopped) return;
      RelayRoom question{};
      asio::read(socket, asio::buffer(question));
      asio::write(socket, asio::buffer("HTTP/1.1 400 Bad Request\r\n\r\n", 28));
      answer();
    });
  };
  answer();
  auto work = asio::make_work_guard(io_);
  std::thread thread([&] { io_.run(); });
  EXPECT_EQ(find_relay("relay", place, 1min, {}), endpoint());
  try {
    find_relay("relay", "127.0.0.1:" + std::to_string(other.local_endpoint().port()), 1min, {});
    ADD_FAILURE();
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("is no relay of sotto"), std::string::npos) << error.what();
  }
  EXPECT_THROW(find_relay("relay", place, 1min, [] { return 2; }), Stopped);
  EXPECT_THROW(find_relay("relay", "nowhere", 1min, {}), ConfigError);
  io_.stop();
  thread.join();
  relay_.reset();
  try {
    find_relay("relay", place, 300ms, {});
    ADD_FAILURE();
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("Connection refused; does `sotto relay`, of this version, run there?"),
              std::string::npos)
        << error.what();
  }
}

TEST(TcpPlaces, SayWhereTheRelayIs) {
  const std::string key(32, 'a'), door = "0123456789abcdef0123456789abcdef";
  const std::string start = "10.0.0.1 29600 " + key;
  const TcpPlace place = read_tcp_place(start + " tls01234567 " + door);
  EXPECT_TRUE(place.secret);
  ASSERT_TRUE(place.relay);
  EXPECT_EQ(hex_text(*place.relay), door);
  EXPECT_EQ(hex_text(*place.secret), "01234567");
  EXPECT_FALSE(read_tcp_place(start + " tls01234567").relay);
  for (const char* const bad :
       {" tls01234567 0123", " tls01234567 0123456789abcdef0123456789abcdeg", " tl", " tls", " tls0123456",
        " tls0123456x", " tls01234567 x", "a", " tls01234567a", " tls01234567 0123456789abcdef0123456789abcdef0"}) {
    EXPECT_THROW(read_tcp_place(start + bad), WireError) << bad;
  }
}

}  // namespace
}  // namespace sotto
