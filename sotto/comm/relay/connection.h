#pragma once

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/relay/word.h"
#include "sotto/comm/tcp/socket.h"

namespace sotto {

// A connection of a relay (relay.h). Operations in progress keep it in memory.
struct RelayConnection {
  // For limit_silence(), as for a direct connection of ranks with this deadline. Few ranks are busy for so long without
  // reading.
  static constexpr std::chrono::milliseconds deadline{180000};

  // Tells asio's read() of a first word how many bytes are missing: none if the bytes cannot begin a word of this
  // version, since other words may be shorter.
  struct Rest {
    std::shared_ptr<RelayConnection> of;
    std::size_t operator()(const asio::error_code& error, std::size_t bytes) const {
      return error || !may_be_relay_word(of->word, bytes) ? 0 : RelayWord::bytes - bytes;
    }
  };

  explicit RelayConnection(asio::ip::tcp::socket accepted)
      : socket(std::move(accepted)), from(origin_of(socket)), patience(socket.get_executor()) {
    asio::error_code gone;
    socket.non_blocking(true, gone);
    limit_silence(socket, deadline);
    prepare_to_carry(socket);
  }

  // Returns whether the system took the whole word at once. It has room for thousands of words.
  bool say(RelayWord::Kind kind, const RelayId& id) {
    asio::error_code error;
    const RelayRoom bytes = write_relay_word({kind, id});
    return socket.write_some(asio::buffer(bytes), error) == bytes.size() && !error;
  }

  asio::ip::tcp::socket socket;
  std::string from;              // its address
  asio::steady_timer patience;   // the relay closes it when this ends
  RelayRoom word{};              // the word that is arriving
  RelayId door{};                // the door that it serves, or at which it waits
  RelayId token{};               // its number as a guest
  bool heard = false;            // it has said what it wants
  bool guest = false;            // it waits to be taken
  bool ended = false;            // it sends nothing more
  bool closed = false;           // the relay has forgotten it
  std::vector<std::byte> ahead;  // bytes that arrived and were not passed on
};

}  // namespace sotto
