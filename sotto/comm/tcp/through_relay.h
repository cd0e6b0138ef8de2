#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "sotto/comm/deadline.h"
#include "sotto/comm/relay/word.h"
#include "sotto/comm/tcp/socket.h"
#include "sotto/comm/tcp/stream.h"

namespace sotto {

// Where peers come to a rank through a relay (relay.h). The relay announces them over a connection. If this connection
// breaks, or the relay does not answer over it for too long (TcpPulse), it is made again, with growing pauses. The
// constructor makes it first, and waits a second for it at most, so that peers find the rank even while it is busy with
// something else. Everything else runs on the thread that runs the io_context. Do not run the io_context after this is
// destroyed.
class TcpRelayDoor {
 public:
  static constexpr std::size_t most_takes = 64;                    // peers that are being taken; the oldest gives way
  using Come = std::function<void(asio::ip::tcp::socket socket)>;  // a peer, which has said nothing yet

  TcpRelayDoor(asio::io_context& io, const asio::ip::tcp::endpoint& relay, std::chrono::milliseconds deadline,
               Come come);
  ~TcpRelayDoor();
  TcpRelayDoor(const TcpRelayDoor&) = delete;
  TcpRelayDoor& operator=(const TcpRelayDoor&) = delete;

  const asio::ip::tcp::endpoint& relay() const { return relay_; }
  const RelayId& id() const { return id_; }
  void close();  // nobody will come any more; the relay tells those who try

 private:
  struct Take;
  bool serve_now();
  void serve();
  void serve_later();
  void hear();
  void take(const RelayId& guest);
  void finish(const std::shared_ptr<Take>& take, const asio::error_code& error);
  void beat();

  asio::io_context& io_;
  asio::ip::tcp::endpoint relay_;
  std::chrono::milliseconds deadline_;
  Come come_;
  RelayId id_ = new_relay_id();
  asio::ip::tcp::socket control_;
  asio::steady_timer again_;
  std::chrono::milliseconds pause_;
  RelayRoom word_{};
  Clock::time_point heard_;  // when the relay last said something, or could first do so
  unsigned turn_ = 0;        // counts the connections: late reports of an earlier one are ignored
  bool closed_ = false, served_ = false;
  std::list<std::shared_ptr<Take>> takes_;
  TcpPulse pulse_;
};

// On a connection to a relay: asks for whoever serves that door. Calls handler(error, answer), where the answer is
// `joined`, `gone` or `absent`.
void call_relay(const std::shared_ptr<TcpStream>& stream, const RelayId& id,
                const std::function<void(const asio::error_code& error, RelayWord::Kind answer)>& handler);

// The relay at "host:port" (`said` for errors), once it answers. ConfigError if the text is something else or the host
// is unknown; CommError if none answers within `deadline`; Stopped if `stop` says so.
asio::ip::tcp::endpoint find_relay(const std::string& said, const std::string& place,
                                   std::chrono::milliseconds deadline, const Stop& stop);

}  // namespace sotto
