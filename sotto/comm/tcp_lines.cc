#include "sotto/comm/tcp_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <asio/socket_base.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds try_again(20);
constexpr std::size_t staging_bytes = 64 << 10;  // short messages of this many bytes arrive with one call of the system

// Over loopback, messages of 64 MB are up to 1.7 times as fast as with the buffers of megabytes that the system would
// choose, since the receiver finds the bytes in the processor's cache. Long links will need larger ones.
constexpr int send_buffer = 128 << 10, receive_buffer = 256 << 10;

bool is_closed(const asio::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::error::connection_refused;
}

std::string reason_of(const asio::error_code& error) {
  if (is_closed(error)) return "the connection was closed: the peer ended or was killed";
  return "the connection broke: " + error.message();
}

}  // namespace

// The connection to a peer. `turn` counts its sockets: what an earlier one still reports is ignored.
struct TcpLines::Line {
  enum class State { unused, connecting, open, closed };
  struct Letter {
    TcpFrame::Kind kind;
    std::span<const std::byte> data;
  };

  Line(asio::io_context& io, int of) : peer(of), again(io), staged(staging_bytes) {}

  int peer;
  State state = State::unused;
  unsigned turn = 0;
  std::shared_ptr<TcpStream> stream;  // null: unused
  asio::steady_timer again;           // for the next attempt to connect
  std::array<std::byte, TcpHello::bytes> greeting{};
  std::string reason;  // why it is closed

  std::deque<Letter> outgoing;  // the first one is being sent
  std::array<std::byte, TcpFrame::bytes> head{};
  bool writing = false;
  std::size_t written = 0;  // bytes of the first one, with its head
  std::uint64_t sent = 0;   // frames

  std::vector<std::byte> staged;  // bytes for which there is no room yet; the first `held` are used
  std::size_t held = 0;
  bool reading = false, over = false;
  std::uint64_t received = 0;                // frames
  std::optional<TcpFrame> frame;             // the frame that is arriving
  std::optional<std::span<std::byte>> room;  // for the missing part of that frame
};

TcpLines::TcpLines(asio::io_context& io, int rank, int size, const asio::ip::address& address,
                   std::shared_ptr<const Tls> tls, Owner& owner)
    : io_(io),
      rank_(rank),
      size_(size),
      tls_(std::move(tls)),
      owner_(owner),
      door_(io, rank, size, address, tls_.get(),
            [this](int peer, std::shared_ptr<TcpStream> stream) { take_over(peer, std::move(stream)); }),
      lines_(static_cast<std::size_t>(size)) {}

TcpLines::~TcpLines() = default;

TcpLines::Line& TcpLines::line_of(int peer) {
  auto& line = lines_.at(static_cast<std::size_t>(peer));
  if (!line) line = std::make_unique<Line>(io_, peer);
  return *line;
}

std::size_t TcpLines::connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines_, [](const auto& line) { return line && line->state == Line::State::open; }));
}

void TcpLines::send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  line.outgoing.push_back({kind, data});
  if (line.state == Line::State::unused) return connect(line);
  write(line);
}

void TcpLines::resume(int peer) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  if (line.state == Line::State::unused) return connect(line);
  read(line);
}

void TcpLines::close() {
  door_.close();
  for (const auto& line : lines_) {
    if (!line) continue;
    ++line->turn;
    line->state = Line::State::closed;
    line->reason = "the connection was closed here";
    if (line->stream) line->stream->close();
  }
}

void TcpLines::lose(Line& line, const std::string& reason) {
  ++line.turn;
  line.state = Line::State::closed;
  line.reason = reason;
  line.again.cancel();
  if (line.stream) line.stream->close();
  line.outgoing.clear();
  line.room.reset();
  owner_.lost(line.peer, reason);
}

void TcpLines::connect(Line& line) {
  line.state = Line::State::connecting;
  TcpPlace place;
  try {
    const auto text = owner_.place_of(line.peer);
    if (!text) return connect_later(line);
    place = read_tcp_place(*text);
    if (place.secret != (tls_ != nullptr)) {
      throw ConfigError(fmt::format("{} has a {}, and {} has none; give all ranks the same one",
                                    place.secret ? "it" : "this rank", named("secret"),
                                    place.secret ? "this rank" : "it"));
    }
  } catch (const std::exception& error) {
    return lose(line, error.what());
  }
  write_hello({static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(line.peer),
               static_cast<std::uint32_t>(size_), place.key},
              line.greeting);
  line.stream = std::make_shared<TcpStream>(Tcp::socket(io_));
  line.stream->socket().async_connect(Tcp::endpoint(place.address, place.port),
                                      [this, &line, turn = ++line.turn](const asio::error_code& error) {
                                        if (turn != line.turn) return;
                                        if (error) return lose(line, reason_of(error));
                                        prove(line);
                                      });
}

void TcpLines::connect_later(Line& line) {
  line.again.expires_after(try_again);
  line.again.async_wait([this, &line, turn = ++line.turn](const asio::error_code&) {
    if (turn == line.turn) connect(line);
  });
}

void TcpLines::prove(Line& line) {
  line.stream->start(
      tls_.get(), TcpStream::Side::client, [this, &line, turn = line.turn](const asio::error_code& error) {
        if (turn != line.turn) return;
        if (!error) return greet(line);
        if (is_closed(error)) return connect_later(line);
        const std::string_view what = is_other_secret(error)
                                          ? "its secret is another one, or somebody changed the handshake on the way"
                                          : "the handshake with it failed";
        lose(line, fmt::format("{}: {}", what, error.message()));
      });
}

// A peer closes this connection without a welcome if it has made one itself, or has too many guests, so this rank tries
// again. If the peer has ended, the next attempt finds no listener.
void TcpLines::greet(Line& line) {
  asio::async_write(*line.stream, asio::buffer(line.greeting),
                    [this, &line, turn = line.turn](const asio::error_code& error, std::size_t) {
                      if (turn != line.turn) return;
                      if (error) return connect_later(line);
                      hear_welcome(line);
                    });
}

void TcpLines::hear_welcome(Line& line) {
  asio::async_read(*line.stream, asio::buffer(line.greeting.data(), TcpFrame::bytes),
                   [this, &line, turn = line.turn](const asio::error_code& error, std::size_t) {
                     if (turn != line.turn) return;
                     if (error) return connect_later(line);
                     try {
                       const TcpFrame frame = read_tcp_frame(line.greeting, 0);
                       if (frame.kind != TcpFrame::Kind::welcome || frame.length != 0) throw WireError("no welcome");
                     } catch (const WireError& wrong) {
                       return lose(line, fmt::format("somebody else answers at its address: {}", wrong.what()));
                     }
                     line.sent = 1;  // the hello
                     opened(line);
                   });
}

void TcpLines::opened(Line& line) {
  asio::error_code ignored;
  Tcp::socket& socket = line.stream->socket();
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(send_buffer), ignored);
  socket.set_option(asio::socket_base::receive_buffer_size(receive_buffer), ignored);
  line.state = Line::State::open;
  line.received = 1;  // the hello or the welcome
  write(line);
  read(line);
}

// Of two connections that are made at the same time, both sides keep that of the lower rank.
void TcpLines::take_over(int peer, std::shared_ptr<TcpStream> stream) {
  Line& line = line_of(peer);
  const bool ours_is_kept = line.state == Line::State::connecting && rank_ < peer;
  if (ours_is_kept || line.state == Line::State::open || line.state == Line::State::closed) return;
  ++line.turn;
  line.again.cancel();
  if (line.stream) line.stream->close();
  line.stream = std::move(stream);
  line.outgoing.push_front({TcpFrame::Kind::welcome, {}});
  opened(line);
}

void TcpLines::write(Line& line) {
  if (line.writing || line.state != Line::State::open || line.outgoing.empty()) return;
  const Line::Letter& letter = line.outgoing.front();
  if (line.written == 0) write_frame({letter.kind, line.sent, letter.data.size()}, line.head);
  const std::size_t of_head = std::min(line.written, TcpFrame::bytes);
  const std::size_t of_data = line.written - of_head;
  const std::array<asio::const_buffer, 2> rest{
      asio::buffer(line.head.data() + of_head, TcpFrame::bytes - of_head),
      asio::buffer(letter.data.data() + of_data, letter.data.size() - of_data)};
  line.writing = true;
  line.stream->async_write_some(rest,
                                [this, &line, turn = line.turn](const asio::error_code& error, std::size_t bytes) {
                                  if (turn != line.turn) return;
                                  line.writing = false;
                                  if (error) return lose(line, reason_of(error));
                                  written(line, bytes);
                                });
}

void TcpLines::written(Line& line, std::size_t bytes) {
  line.written += bytes;
  const Line::Letter letter = line.outgoing.front();
  if (line.written == TcpFrame::bytes + letter.data.size()) {
    line.written = 0;
    ++line.sent;
    line.outgoing.pop_front();
    if (letter.kind != TcpFrame::Kind::welcome) owner_.sent(line.peer);
  }
  write(line);
}

// Data go directly into their room. The same system call stages the bytes that come after them.
void TcpLines::read(Line& line) {
  if (line.reading || line.state != Line::State::open) return;
  try {
    use_staged(line);
  } catch (const WireError& error) {
    return lose(line, error.what());
  }
  if (line.over || line.state != Line::State::open || (line.frame && !line.room)) return;
  const auto room = line.room.value_or(std::span<std::byte>());
  const std::array<asio::mutable_buffer, 2> space{
      asio::buffer(room.data(), room.size()), asio::buffer(line.staged.data() + line.held, staging_bytes - line.held)};
  line.reading = true;
  line.stream->async_read_some(space,
                               [this, &line, turn = line.turn](const asio::error_code& error, std::size_t bytes) {
                                 if (turn != line.turn) return;
                                 line.reading = false;
                                 if (error) return lose(line, reason_of(error));
                                 const std::size_t direct = line.room ? std::min(bytes, line.room->size()) : 0;
                                 if (line.room) line.room = line.room->subspan(direct);
                                 line.held += bytes - direct;
                                 read(line);
                               });
}

// Takes frames from the staged bytes until some bytes are missing, or there is no room.
void TcpLines::use_staged(Line& line) {
  const unsigned turn = line.turn;
  std::size_t used = 0;
  while (!line.over) {
    if (!line.frame) {
      if (line.held - used < TcpFrame::bytes) break;
      line.frame = read_tcp_frame(std::span(line.staged).subspan(used), line.received);
      used += TcpFrame::bytes;
    }
    if (!line.room && !(line.room = owner_.room_for(line.peer, *line.frame))) break;
    const std::size_t count = std::min(line.room->size(), line.held - used);
    if (count > 0) std::memcpy(line.room->data(), line.staged.data() + used, count);
    used += count;
    line.room = line.room->subspan(count);
    if (!line.room->empty()) break;
    const TcpFrame whole = *std::exchange(line.frame, std::nullopt);
    line.room.reset();
    ++line.received;
    line.over = !owner_.received(line.peer, whole);
    if (turn != line.turn) return;  // closed by the owner
  }
  line.held -= used;
  std::memmove(line.staged.data(), line.staged.data() + used, line.held);
}

}  // namespace sotto
