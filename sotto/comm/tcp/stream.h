#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "sotto/comm/tcp/tls.h"

namespace sotto {

// A TCP connection, with TLS if start() got a secret. asio's functions read() and write() take it as a stream. An
// operation keeps the stream alive; if the stream is closed meanwhile, the operation ends with an error.
class TcpStream : public std::enable_shared_from_this<TcpStream> {
 public:
  using executor_type = asio::ip::tcp::socket::executor_type;
  using Side = TlsLine::Side;

  explicit TcpStream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  asio::ip::tcp::socket& socket() { return socket_; }

  // Call it when the socket is connected. Both sides prove that they know the secret; without a secret (`tls` is null)
  // there is nothing to do. Calls handler(error).
  template <class Handler>
  void start(const Tls* tls, Side side, Handler handler) {
    asio::error_code bad;
    socket_.non_blocking(true, bad);
    if (!bad && tls != nullptr) line_.emplace(*tls, static_cast<int>(socket_.native_handle()), side);
    carry([bad](TlsLine* line) { return line != nullptr ? line->handshake() : TlsLine::Progress{.error = bad}; },
          [handler = std::move(handler)](const asio::error_code& error, std::size_t) mutable { handler(error); });
  }

  // Like the functions of asio's sockets, but only the first two buffers that are not empty are used.
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    if (!line_) return socket_.async_read_some(buffers, Kept{shared_from_this(), std::move(handler)});
    carry([rooms = two_of<std::byte>(buffers)](TlsLine* line) { return line->read(rooms); }, std::move(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    if (!line_) return socket_.async_write_some(buffers, Kept{shared_from_this(), std::move(handler)});
    carry([parts = two_of<const std::byte>(buffers)](TlsLine* line) { return line->write(parts); }, std::move(handler));
  }

  void close() {
    asio::error_code ignored;
    socket_.close(ignored);
  }

 private:
  template <class Handler>
  struct Kept {
    void operator()(const asio::error_code& error, std::size_t bytes) { handler(error, bytes); }
    std::shared_ptr<TcpStream> stream;
    Handler handler;
  };
  template <class Handler>
  Kept(std::shared_ptr<TcpStream>, Handler) -> Kept<Handler>;

  template <class Byte, class Buffers>
  static std::array<std::span<Byte>, 2> two_of(const Buffers& buffers) {
    std::array<std::span<Byte>, 2> two;
    std::size_t count = 0;
    for (auto i = asio::buffer_sequence_begin(buffers); i != asio::buffer_sequence_end(buffers) && count < 2; ++i) {
      if (i->size() > 0) two.at(count++) = {static_cast<Byte*>(i->data()), i->size()};
    }
    return two;
  }

  // Tries the step until it makes progress or fails, and then calls handler(error, bytes), never from within this
  // function.
  template <class Step, class Handler>
  void carry(Step step, Handler handler) {
    TlsLine::Progress done{.error = asio::error::operation_aborted};  // a closed socket's number may be another file's
    if (socket_.is_open()) done = step(line_ ? &*line_ : nullptr);
    if (done.wants == TlsLine::Wants::nothing) {
      asio::post(get_executor(), [kept = Kept{shared_from_this(), std::move(handler)}, done]() mutable {
        kept(done.error, done.bytes);
      });
      return;
    }
    const auto wanted =
        done.wants == TlsLine::Wants::read ? asio::socket_base::wait_read : asio::socket_base::wait_write;
    socket_.async_wait(wanted, [kept = Kept{shared_from_this(), std::move(handler)},
                                step = std::move(step)](const asio::error_code& error) mutable {
      if (error) return kept(error, 0);
      kept.stream->carry(std::move(step), std::move(kept.handler));
    });
  }

  asio::ip::tcp::socket socket_;
  std::optional<TlsLine> line_;
};

}  // namespace sotto
