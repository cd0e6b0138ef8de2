#include "sotto/comm/tcp/socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/error.hpp>
#include <asio/socket_base.hpp>
#include <cstring>
#include <utility>

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;

// On short links small buffers are faster than those of megabytes that the system would choose. On the loopback,
// messages of 64 MB are up to 1.7 times as fast, since the receiver finds the bytes in the processor's cache. Over 1
// Gbit/s with TLS, both directions at once reach .97 of Gloo's rate in place of .90. Long links need the buffers that
// the system chooses: in a round trip a sender can send no more than fits into its buffer.
constexpr int send_buffer = 128 << 10, receive_buffer = 256 << 10;
constexpr std::chrono::microseconds short_round_trip(1000);

constexpr int unanswered_packets = 2;  // after 1 and 2 s; the attempt ends 4 s later

void set_number(Tcp::socket& socket, int option, int value) {
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
}

// As measured when the connection was made; the longest one if it is not known.
std::chrono::microseconds round_trip(Tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  ::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_rtt > 0 ? std::chrono::microseconds(info.tcpi_rtt) : std::chrono::microseconds::max();
}

constexpr int beats = 4;  // in the longest silence

std::chrono::milliseconds silence_within(std::chrono::milliseconds deadline) {
  return std::clamp<std::chrono::milliseconds>(deadline / 4, TcpPulse::least, TcpPulse::longest);
}

}  // namespace

Tcp::endpoint endpoint_of(const SocketAddress& address) {
  Tcp::endpoint endpoint;
  endpoint.resize(address.length());
  std::memcpy(endpoint.data(), address.get(), address.length());
  return endpoint;
}

std::string origin_of(const Tcp::socket& socket) {
  asio::error_code gone;
  const Tcp::endpoint endpoint = socket.remote_endpoint(gone);
  return gone ? "an address that is gone" : fmt::format("{} port {}", endpoint.address().to_string(), endpoint.port());
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
  const bool loopback = socket.remote_endpoint(ignored).address().is_loopback();
  if (!loopback && round_trip(socket) > short_round_trip) return;
  socket.set_option(asio::socket_base::send_buffer_size(send_buffer), ignored);
  socket.set_option(asio::socket_base::receive_buffer_size(receive_buffer), ignored);
}

TcpPulse::TcpPulse(asio::io_context& io, Deadline deadline, std::function<void()> beat)
    : deadline_(std::move(deadline)), beat_(std::move(beat)), timer_(io) {
  wait();
}

bool TcpPulse::too_silent(Clock::time_point heard) const {
  return Clock::now() - std::max(heard, attentive_) >= silence_within(deadline_.by_last_lap());
}

// The period follows from the least deadline, which all ranks have: a peer with shorter steps may tolerate less silence
// than this rank, but not less than that.
void TcpPulse::wait() {
  const auto period = silence_within(deadline_.least()) / beats;
  timer_.expires_after(period);
  timer_.async_wait([this, period](const asio::error_code& stopped) {
    if (stopped) return;
    const auto now = Clock::now();
    if (now - timer_.expiry() > period / 2) attentive_ = now;  // the thread was away
    beat_();
    wait();
  });
}

}  // namespace sotto
