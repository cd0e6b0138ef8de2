#pragma once

// Ranks, and those who play one, at a relay.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/comm/relay/relay.h"
#include "sotto/comm/relay/word.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto::test {

// Its ranks have a secret, and some are behind the relay, which runs on the same thread.
class AtRelay : public Ranks {
 protected:
  using Kind = RelayWord::Kind;
  explicit AtRelay(const RelaySettings& settings = {})
      : Ranks(std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}})), settings_(settings) {
    start_relay({asio::ip::address_v4::loopback(), 0});
  }

  void start_relay(const asio::ip::tcp::endpoint& endpoint) {
    relay_.emplace(io_, endpoint, settings_, [this](const std::string& line) { log_.push_back(line); });
  }
  asio::ip::tcp::endpoint endpoint() const { return relay_->endpoint(); }
  // A rank that goes to the relay by that way: nothing if it needs none.
  void add(int size, const std::optional<asio::ip::tcp::endpoint>& way, int streams = 1,
           std::chrono::milliseconds deadline = std::chrono::minutes(10)) {
    all_.push_back(
        std::make_unique<Rank>(io_, static_cast<int>(all_.size()), size, tls_, all_, deadline, streams, way));
  }
  // Sends a message, which stays.
  const Bytes& post(int from, int to, std::size_t length = 10) {
    posted_.push_back(message(length, from));
    send(from, to, posted_.back());
    return posted_.back();
  }
  void expect_mail(int from, int to, std::size_t length = 1000) {
    const Bytes& data = post(from, to, length);
    run_until([&] { return !rank(to).came[from].empty(); });
    EXPECT_EQ(rank(to).came[from].front(), data);
    rank(to).came[from].clear();
  }

  // Somebody who connects to the relay.
  asio::ip::tcp::socket come() {
    asio::ip::tcp::socket socket(io_);
    socket.connect(relay_->endpoint());
    return socket;
  }
  asio::ip::tcp::socket come(Kind kind, const RelayId& id) {
    auto socket = come();
    asio::write(socket, asio::buffer(write_relay_word({kind, id})));
    return socket;
  }
  // The next word; nothing if the connection ends.
  std::optional<RelayWord> word(asio::ip::tcp::socket& socket) {
    const Bytes heard = hear(socket, RelayWord::bytes);
    if (heard.size() < RelayWord::bytes) return std::nullopt;
    RelayRoom room{};
    std::ranges::copy(heard, room.begin());
    return read_relay_word(room);
  }
  std::optional<Kind> kind(asio::ip::tcp::socket& socket) {
    const auto heard = word(socket);
    return heard ? std::optional(heard->kind) : std::nullopt;
  }
  // Serves the door, until the relay knows it.
  asio::ip::tcp::socket serve(const RelayId& id) {
    const std::size_t before = relay_->doors();
    auto socket = come(Kind::serve, id);
    run_until([&] { return relay_->doors() > before; });
    return socket;
  }

  RelaySettings settings_;
  std::vector<std::string> log_;
  std::deque<Bytes> posted_;
  std::optional<Relay> relay_;
};

}  // namespace sotto::test
