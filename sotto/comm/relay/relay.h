#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "sotto/comm/deadline.h"
#include "sotto/comm/tcp/refusals.h"
#include "sotto/comm/world.h"

namespace sotto {

struct RelaySettings {
  std::chrono::milliseconds patience{10000};  // how long it waits for a first word, and a guest for its host
  std::chrono::milliseconds grace{10000};     // for a rank whose connection broke, until it counts as ended
  std::size_t most_waiting = 1024;            // connections that say nothing, and guests
  std::size_t most_guests = 64;               // of one door
  std::size_t most_doors = 65536;
  std::size_t most_pairs = 8192;  // joined connections; each may take 128 KiB of memory
};

// Joins connections of ranks that cannot reach each other, but can all reach the relay. A rank serves its door
// (RelayWord): it keeps a connection on which the relay announces guests, and makes a new connection for each guest
// that it takes. From then on the relay carries bytes both ways, without a look at them. It reads from one side at most
// `room` bytes more than the other side has taken.
//
// Anybody who reaches the port may use it. Connections that send garbage or nothing are closed, with at most a line a
// second in the log. When too many connections wait, the oldest gives way. When there are too many doors or pairs, a
// new one is refused. Everything runs on the thread that runs the io_context. The io_context may still run after the
// relay is destroyed.
class Relay {
 public:
  static constexpr std::size_t room = 64 << 10;

  // Listens at `endpoint`; port 0: one that the system chooses. CommError if that is not possible.
  Relay(asio::io_context& io, const asio::ip::tcp::endpoint& endpoint, const RelaySettings& settings = {},
        TcpRefusals::Say say = TcpRefusals::to_stderr);
  ~Relay();  // closes all connections
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  asio::ip::tcp::endpoint endpoint() const;
  // For tests: how many there are.
  std::size_t doors() const;
  std::size_t waiting() const;
  std::size_t pairs() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Runs a relay at `place` until `stop` returns a signal, and returns that signal. Calls `listens` with the relay's
// port. CommError if it cannot listen, ConfigError if the host is unknown.
int serve_relay(const MeetingPlace& place, const std::function<void(std::uint16_t port)>& listens, const Stop& stop);

}  // namespace sotto
