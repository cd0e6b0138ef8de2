#include "sotto/comm/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/socket_base.hpp>
#include <cstring>

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;

// For the loopback: messages of 64 MB are up to 1.7 times as fast as with the buffers of megabytes that the system
// would choose, since the receiver finds the bytes in the processor's cache. Other links need what the system chooses:
// a sender can have no more under way in a round trip than fits into its buffer.
constexpr int send_buffer = 128 << 10, receive_buffer = 256 << 10;
// Of what such a buffer holds, so much has not been sent yet, at most: more would only delay acknowledgements, which
// stand in the same line.
constexpr int unsent_bytes = 256 << 10;

constexpr int unanswered_packets = 2;  // after 1 and 2 s; the attempt ends 4 s later

void set_number(Tcp::socket& socket, int option, int value) {
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
}

}  // namespace

Tcp::endpoint endpoint_of(const SocketAddress& address) {
  Tcp::endpoint endpoint;
  endpoint.resize(address.length());
  std::memcpy(endpoint.data(), address.get(), address.length());
  return endpoint;
}

bool is_closed(const asio::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::error::connection_refused;
}

void prepare_to_connect(Tcp::socket& socket, const Tcp& protocol) {
  asio::error_code ignored;  // connecting says so again
  socket.open(protocol, ignored);
  set_number(socket, TCP_SYNCNT, unanswered_packets);
}

void limit_silence(Tcp::socket& socket, std::chrono::milliseconds deadline) {
  const auto longest = std::clamp<std::chrono::milliseconds>(deadline / 3, 10s, 1h);
  const int seconds = static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(longest).count());
  asio::error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  set_number(socket, TCP_KEEPIDLE, seconds / 2);
  set_number(socket, TCP_KEEPINTVL, seconds / 4);
  set_number(socket, TCP_USER_TIMEOUT, seconds * 1000);
}

void prepare_to_carry(Tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  if (socket.remote_endpoint(ignored).address().is_loopback()) {
    socket.set_option(asio::socket_base::send_buffer_size(send_buffer), ignored);
    socket.set_option(asio::socket_base::receive_buffer_size(receive_buffer), ignored);
  } else {
    set_number(socket, TCP_NOTSENT_LOWAT, unsent_bytes);
  }
}

}  // namespace sotto
