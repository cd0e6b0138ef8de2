#pragma once

#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "sotto/comm/deadline.h"
#include "sotto/comm/interfaces.h"
#include "sotto/core/timer.h"

namespace sotto {

asio::ip::tcp::endpoint endpoint_of(const SocketAddress& address);
std::string origin_of(const asio::ip::tcp::socket& socket);  // "10.0.0.1 port 4242", the other end

// Whether the error says that the other end has closed the connection, or is not there.
bool is_closed(const asio::error_code& error);

// Options of the system for sockets of the transport `tcp`. What the system refuses is left as it is.

// Opens the socket. An attempt to connect that nobody answers ends after some seconds, so that the next one comes while
// the deadline has not passed.
void prepare_to_connect(asio::ip::tcp::socket& socket, const asio::ip::tcp& protocol);
// A connection counts as broken when its other end has been silent for a third of the deadline, but for ten seconds at
// least, whether this end sends or waits. It is the peer's system that answers, even while the peer is busy; TcpPulse
// watches the peer itself.
void limit_silence(asio::ip::tcp::socket& socket, std::chrono::milliseconds deadline);
// Buffers and delays for messages. Call it as soon as there is a connection: what peers compute before they answer
// would make the link look longer.
void prepare_to_carry(asio::ip::tcp::socket& socket);

// Tells the thread that runs an io_context when to say to its peers that it is there, and which of them have been
// silent for too long. Time in which the thread did something else does not count: what peers said meanwhile may be
// unread. Do not run the io_context after this is destroyed.
class TcpPulse {
 public:
  // A connection that is silent for a quarter of the deadline is replaced, but not before `least` has passed.
  static constexpr std::chrono::milliseconds least{2000}, longest = std::chrono::hours(1);

  // Calls `beat` four times in the longest silence that any peer with the same least deadline tolerates, while the
  // io_context runs.
  TcpPulse(asio::io_context& io, Deadline deadline, std::function<void()> beat);
  TcpPulse(const TcpPulse&) = delete;
  TcpPulse& operator=(const TcpPulse&) = delete;

  // Whether a peer has been silent for too long. It was last heard, or first waited for, at the time `heard`.
  bool too_silent(Clock::time_point heard) const;

 private:
  void wait();

  Deadline deadline_;
  std::function<void()> beat_;
  asio::steady_timer timer_;
  Clock::time_point attentive_ = Clock::now();  // since then the thread has run the io_context
};

}  // namespace sotto
