#pragma once

#include <array>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/tcp/incoming.h"
#include "sotto/comm/tcp/lines.h"
#include "sotto/comm/tcp/outgoing.h"
#include "sotto/core/timer.h"

namespace sotto {

// What connects this rank with a peer. `turn` counts its sockets: late reports of an earlier socket are ignored.
struct TcpLines::Line {
  enum class State { unused, connecting, greeting, open, closed };

  static constexpr std::chrono::milliseconds shortest_pause{20}, longest_pause{1000};  // between attempts to connect
  static constexpr int most_damages = 5;  // of one frame, over as many connections

  Line(asio::io_context& io, TcpOwner& owner, int of) : peer(of), again(io), incoming(owner, of) {}

  int peer;
  State state = State::unused;
  unsigned turn = 0;
  std::shared_ptr<TcpStream> stream;  // null: unused
  std::optional<TcpPlace> place;      // of the peer's door; nothing: not known yet
  std::string reason;                 // why it is closed

  // Connections between the two ranks have numbers in the order of attempts: a new number is the largest one that the
  // rank knows, plus 1. A hello is refused if its number is not above the number of the present connection. It is also
  // refused if the peer wrote it before it knew of that connection: the peer has given up this attempt since, even if
  // its number is larger.
  std::uint64_t number = 0, tried = 0;
  std::uint64_t known = 0;  // the last connection of which the peer has said that it was made
  std::array<std::byte, TcpHello::bytes> greeting{};
  asio::steady_timer again;  // for the next attempt to connect
  std::chrono::milliseconds pause = shortest_pause;
  Clock::time_point since;    // of the present connection, or of the attempts to make one
  Clock::time_point asked;    // when the owner last asked for something over it
  Clock::time_point until;    // until then the operation that asked may wait
  Clock::time_point heard;    // when bytes last came, or this rank began to wait for some
  std::uint64_t carried = 0;  // frames until the last break; if the next connection carries none, pauses grow
  std::uint64_t damaged = 0;  // the frame that was due when one came damaged,
  int damages = 0;            // and how often that was so
  Clock::time_point told;     // when the log last said so
  std::string broken;         // why the last connection ended
  std::string failed;         // why the last attempt failed

  TcpOutgoing outgoing;
  TcpIncoming incoming;
  bool writing = false, reading = false;
};

}  // namespace sotto
