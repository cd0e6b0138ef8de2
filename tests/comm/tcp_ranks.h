#pragma once

// The connections of several ranks on one thread.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/comm/tcp/door.h"
#include "sotto/comm/tcp/peers.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto::test {

using Bytes = std::vector<std::byte>;

inline Bytes message(std::size_t length, int seed) {
  Bytes data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return data;
}

// Ends the connections of this process, as if a machine on the way had forgotten them.
inline void break_all() {
  for (int file = 3; file < 1024; ++file) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    if (::getpeername(file, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sin_family == AF_INET) {
      ::shutdown(file, SHUT_RDWR);
    }
  }
}

// A rank that takes every message of at most `most` bytes.
class Rank final : public TcpOwner {
 public:
  Rank(asio::io_context& io, int rank, int size, std::shared_ptr<const Tls> tls,
       const std::vector<std::unique_ptr<Rank>>& all, const Deadline& deadline = std::chrono::minutes(10),
       int streams = 1, const std::optional<asio::ip::tcp::endpoint>& relay = std::nullopt)
      : connections_(make_tcp_peers(io, rank, size,
                                    {.options = {.streams = streams},
                                     .address = asio::ip::address_v4::loopback(),
                                     .tls = std::move(tls),
                                     .deadline = deadline,
                                     .relay = relay},
                                    *this)),
        all_(all) {}

  std::optional<std::string> place_of(int peer) override {
    const std::string& found = all_.at(static_cast<std::size_t>(peer))->place;
    return found.empty() ? std::nullopt : std::optional(found);
  }
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

 private:
  std::unique_ptr<TcpPeers> connections_;

 public:
  TcpPeers& lines = *connections_;
  std::string place = lines.place();

 private:
  const std::vector<std::unique_ptr<Rank>>& all_;
};

// Its ranks have the same secret, or none.
class Ranks : public testing::Test {
 protected:
  explicit Ranks(std::shared_ptr<const Tls> tls = nullptr, int streams = 1) : tls_(std::move(tls)), streams_(streams) {}

  void start(int size) {
    for (int rank = 0; rank < size; ++rank) {
      all_.push_back(std::make_unique<Rank>(io_, rank, size, tls_, all_, std::chrono::minutes(10), streams_));
    }
  }
  Rank& rank(int number) { return *all_.at(static_cast<std::size_t>(number)); }
  void run_until(const std::function<bool()>& done) {
    const auto end = Clock::now() + std::chrono::minutes(5);
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
  // Reads so many bytes; fewer if the connection ends.
  Bytes hear(asio::ip::tcp::socket& socket, std::size_t bytes) {
    Bytes heard(bytes);
    bool done = false;
    asio::async_read(socket, asio::buffer(heard), [&](const asio::error_code&, std::size_t count) {
      done = true;
      heard.resize(count);
    });
    run_until([&] { return done; });
    return heard;
  }
  // Both ranks send these, and get them once and in order. `disturb` is called again and again meanwhile.
  void swap(
      const std::vector<Bytes>& messages, const std::function<void()>& disturb = [] {});
  // Both ranks send each other three messages; the first are large.
  void cross();
  // Many connect to rank 0, some with garbage; rank 1 reaches it all the same.
  void crowd();
  std::string hear(std::string_view words);

  std::shared_ptr<const Tls> tls_;
  int streams_;
  asio::io_context io_{1};
  std::vector<std::unique_ptr<Rank>> all_;
  std::vector<std::vector<std::unique_ptr<Rank>>> before_;  // io_ may still have work for these
};

// Forwards what comes from whoever connects to it, and keeps it. It changes the byte after the first `intact`.
class Tap {
 public:
  Tap(asio::io_context& io, std::uint16_t port, std::size_t intact)
      : intact_(intact), acceptor_(io, {asio::ip::address_v4::loopback(), 0}), near_(io), far_(io) {
    far_.connect({asio::ip::address_v4::loopback(), port});
    acceptor_.async_accept(near_, [this](const asio::error_code& error) {
      if (error) return;
      forward(near_, far_, there_, true);
      forward(far_, near_, back_, false);
    });
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  std::string heard;  // on the way there

 private:
  using Room = std::array<char, 4096>;
  void forward(asio::ip::tcp::socket& from, asio::ip::tcp::socket& to, Room& room, bool there) {
    from.async_read_some(asio::buffer(room), [&, there, this](const asio::error_code& error, std::size_t bytes) {
      if (error == asio::error::operation_aborted) return;  // the tap is gone
      asio::error_code ignored;
      if (error) return static_cast<void>(to.close(ignored));
      if (there && heard.size() <= intact_ && intact_ < heard.size() + bytes) room.at(intact_ - heard.size()) ^= 1;
      if (there) heard.append(room.data(), bytes);
      asio::write(to, asio::buffer(room, bytes));
      forward(from, to, room, there);
    });
  }

  std::size_t intact_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::socket near_, far_;
  Room there_{}, back_{};
};

// The place, with the port of the tap.
inline std::string tapped(const std::string& place, std::uint16_t port) {
  const auto space = place.find(' ');
  return place.substr(0, space + 1) + std::to_string(port) + place.substr(place.find(' ', space + 1));
}

inline void Ranks::swap(const std::vector<Bytes>& messages, const std::function<void()>& disturb) {
  for (const int from : {1, 0}) {
    for (const Bytes& one : messages) send(from, 1 - from, one);
  }
  run_until([&] {
    disturb();
    return rank(0).came[1].size() >= messages.size() && rank(1).came[0].size() >= messages.size() &&
           rank(0).messages_sent == rank(1).messages_sent && rank(0).messages_sent == static_cast<int>(messages.size());
  });
  for (const int to : {0, 1}) {
    EXPECT_TRUE(std::ranges::equal(rank(to).came[1 - to], messages));
    EXPECT_TRUE(rank(to).losses.empty()) << rank(to).losses.begin()->second;
  }
}

inline void Ranks::cross() {
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

inline void Ranks::crowd() {
  start(2);
  std::vector<asio::ip::tcp::socket> strangers;
  for (std::size_t i = 0; i < 2 * TcpDoor::most_guests; ++i) strangers.push_back(stranger(0));  // all silent
  for (std::size_t i = 0; i < strangers.size(); i += 3) asio::write(strangers[i], asio::buffer(message(200, 1)));
  const Bytes data = message(1000, 2);
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_EQ(rank(0).lines.connections(), 1U);
}

// What somebody on the way from rank 1 to rank 0 hears.
inline std::string Ranks::hear(std::string_view words) {
  start(2);
  Tap tap(io_, read_tcp_place(rank(0).place).port, SIZE_MAX);
  rank(0).place = tapped(rank(0).place, tap.port());
  const auto said = std::as_bytes(std::span(words));
  const Bytes data(said.begin(), said.end());
  send(1, 0, data);
  run_until([&] { return rank(0).came[1].size() == 1; });
  EXPECT_EQ(rank(0).came[1][0], data);
  return tap.heard;
}

}  // namespace sotto::test
