#include "sotto/comm/tcp_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <utility>

#include "sotto/comm/tcp_incoming.h"
#include "sotto/comm/tcp_outgoing.h"
#include "sotto/comm/tcp_socket.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds shortest_pause = 20ms, longest_pause = 1s;  // between attempts to connect

std::string reason_of(const asio::error_code& error) {
  if (is_closed(error)) return "the connection was closed: the peer ended or was killed";
  return "the connection broke: " + error.message();
}

// Says that the line is closed for ever, instead of a welcome.
void send_away(const std::shared_ptr<TcpStream>& stream) {
  const auto word = std::make_shared<std::array<std::byte, TcpFrame::bytes>>();
  write_frame({TcpFrame::Kind::goodbye, 0, 0}, *word);
  asio::async_write(*stream, asio::buffer(*word), [word](const asio::error_code&, std::size_t) {});
}

}  // namespace

// What connects this rank with a peer. `turn` counts its sockets: what an earlier one still reports is ignored.
struct TcpLines::Line {
  enum class State { unused, connecting, greeting, open, closed };

  Line(asio::io_context& io, Owner& owner, int of) : peer(of), again(io), incoming(owner, of) {}

  int peer;
  State state = State::unused;
  unsigned turn = 0;
  std::shared_ptr<TcpStream> stream;  // null: unused
  std::string place;                  // of its door; empty: not known yet
  std::string reason;                 // why it is closed

  // Connections between these two have numbers in the order in which they were tried; each rank makes a new number from
  // the largest one that it knows. A hello is refused if it is older than the present connection, or if the peer wrote
  // it before it knew of that one: then it has given it up, though its number may be larger.
  std::uint64_t number = 0, tried = 0;
  std::uint64_t known = 0;  // the last connection of which the peer has said that it was made
  std::array<std::byte, TcpHello::bytes> greeting{};
  asio::steady_timer again;  // for the next attempt to connect
  std::chrono::milliseconds pause = shortest_pause;
  Clock::time_point since;    // of the present connection, or of the attempts to make one
  Clock::time_point asked;    // when the owner last waited for it to be made
  std::uint64_t carried = 0;  // frames, before the last connection broke; if it has carried none, the pauses grow
  std::string broken;         // why the last connection ended
  std::string failed;         // why the last attempt failed

  TcpOutgoing outgoing;
  TcpIncoming incoming;
  bool writing = false, reading = false;
};

TcpLines::TcpLines(asio::io_context& io, int rank, int size, const asio::ip::address& address,
                   std::shared_ptr<const Tls> tls, std::chrono::milliseconds deadline, Owner& owner)
    : io_(io),
      rank_(rank),
      size_(size),
      tls_(std::move(tls)),
      deadline_(deadline),
      owner_(owner),
      door_(io, rank, size, address, tls_.get(),
            [this](const TcpHello& hello, std::shared_ptr<TcpStream> stream) { take_over(hello, std::move(stream)); }),
      lines_(static_cast<std::size_t>(size)) {}

TcpLines::~TcpLines() = default;

TcpLines::Line& TcpLines::line_of(int peer) {
  auto& line = lines_.at(static_cast<std::size_t>(peer));
  if (!line) line = std::make_unique<Line>(io_, owner_, peer);
  return *line;
}

std::size_t TcpLines::connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines_, [](const auto& line) { return line && line->state == Line::State::open; }));
}

std::string TcpLines::trouble(int peer) const {
  const auto& line = lines_.at(static_cast<std::size_t>(peer));
  if (!line || line->state == Line::State::open || (line->broken.empty() && line->failed.empty())) return "";
  const double seconds = std::chrono::duration<double>(Clock::now() - line->since).count();
  const std::string before = line->broken.empty() ? "no connection could be made"
                                                  : fmt::format("{}, and it could not be made again", line->broken);
  const std::string why = line->failed.empty() ? "the peer does not answer" : line->failed;
  return fmt::format("{} for {:.1f} s: {}", before, seconds, why);
}

std::size_t TcpLines::awaited() const {
  std::size_t bytes = 0;
  for (const auto& line : lines_) {
    if (!line || line->state != Line::State::open || line->incoming.waits_for_room()) continue;
    bytes += line->outgoing.awaited();
  }
  return bytes;
}

void TcpLines::send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  line.asked = Clock::now();
  line.outgoing.add(kind, data);
  if (line.state == Line::State::unused) return connect(line);
  write(line);
}

void TcpLines::resume(int peer) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  line.asked = Clock::now();
  if (line.state == Line::State::unused) return connect(line);
  read(line);
}

void TcpLines::close() {
  door_.close();
  for (const auto& line : lines_) {
    if (!line) continue;
    drop(*line);
    line->state = Line::State::closed;
    line->reason = "the connection was closed here";
  }
}

// Ends the present connection, or the attempt to make one.
void TcpLines::drop(Line& line) {
  ++line.turn;
  line.again.cancel();
  if (line.stream) line.stream->close();
  line.writing = line.reading = false;
  line.incoming.begin_again();
}

void TcpLines::lose(int peer, const std::string& reason) {
  Line& line = line_of(peer);
  drop(line);
  line.state = Line::State::closed;
  line.reason = reason;
  line.outgoing = {};
  owner_.lost(peer, reason);
}

void TcpLines::break_off(Line& line, const asio::error_code& error) {
  drop(line);
  const std::uint64_t carried = line.incoming.due() + line.outgoing.acknowledged();
  if (carried > std::exchange(line.carried, carried) || Clock::now() - line.since >= 1s) line.pause = shortest_pause;
  line.since = Clock::now();
  line.broken = is_closed(error) ? "the connection was closed" : reason_of(error);
  line.failed.clear();
  connect_later(line, line.pause);
}

// A peer whose door is closed has ended; anything else may pass. Time in which the owner was busy does not count.
void TcpLines::try_again(Line& line, const std::string& why) {
  drop(line);
  line.failed = why;
  if (Clock::now() - std::max(line.since, line.asked) >= deadline_) return lose(line.peer, trouble(line.peer));
  connect_later(line, line.pause);
}

void TcpLines::connect_later(Line& line, std::chrono::milliseconds pause) {
  line.state = Line::State::connecting;
  line.pause = std::min(2 * pause, longest_pause);
  line.again.expires_after(pause);
  line.again.async_wait([this, &line, turn = line.turn](const asio::error_code&) {
    if (turn == line.turn) connect(line);
  });
}

void TcpLines::connect(Line& line) {
  if (line.state == Line::State::unused) line.since = Clock::now();
  line.state = Line::State::connecting;
  TcpPlace place;
  try {
    if (line.place.empty()) {
      const auto text = owner_.place_of(line.peer);
      if (!text) return connect_later(line, shortest_pause);
      line.place = *text;
    }
    place = read_tcp_place(line.place);
    if (place.secret != (tls_ != nullptr)) {
      throw ConfigError(fmt::format("{} has a {}, and {} has none; give all ranks the same one",
                                    place.secret ? "it" : "this rank", named("secret"),
                                    place.secret ? "this rank" : "it"));
    }
  } catch (const std::exception& error) {
    return lose(line.peer, error.what());
  }
  line.tried = std::max(line.number, line.tried) + 1;
  write_hello(
      {static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(line.peer), static_cast<std::uint32_t>(size_),
       line.tried, line.number, line.incoming.due(), place.key, door_.place()},
      line.greeting);
  const Tcp::endpoint door(place.address, place.port);
  line.stream = std::make_shared<TcpStream>(Tcp::socket(io_));
  prepare_to_connect(line.stream->socket(), door.protocol());
  line.stream->socket().async_connect(door, [this, &line, turn = line.turn](const asio::error_code& error) {
    if (turn != line.turn) return;
    if (error == asio::error::connection_refused) return lose(line.peer, reason_of(error));
    if (error) return try_again(line, error.message());
    limit_silence(line.stream->socket(), deadline_);
    prove(line);
  });
}

// Once a connection was made, both have the same secret.
void TcpLines::prove(Line& line) {
  line.stream->start(
      tls_.get(), TcpStream::Side::client, [this, &line, turn = line.turn](const asio::error_code& error) {
        if (turn != line.turn) return;
        if (!error) return greet(line);
        const bool of_system = is_closed(error) || error.category() == asio::error::get_system_category();
        if (of_system || line.number > 0) return try_again(line, error.message());
        const char* const what = is_other_secret(error)
                                     ? "its secret is another one, or somebody changed the handshake on the way"
                                     : "the handshake with it failed";
        lose(line.peer, fmt::format("{}: {}", what, error.message()));
      });
}

// A peer closes this connection without a welcome if it has made one itself, or has too many guests, so this rank tries
// again. If the peer has ended, the next attempt finds no listener.
void TcpLines::greet(Line& line) {
  line.state = Line::State::greeting;
  asio::async_write(*line.stream, asio::buffer(line.greeting),
                    [this, &line, turn = line.turn](const asio::error_code& error, std::size_t) {
                      if (turn != line.turn) return;
                      if (error) return try_again(line, error.message());
                      hear_welcome(line);
                    });
}

void TcpLines::hear_welcome(Line& line) {
  asio::async_read(*line.stream, asio::buffer(line.greeting.data(), TcpFrame::bytes),
                   [this, &line, turn = line.turn](const asio::error_code& error, std::size_t) {
                     if (turn != line.turn) return;
                     if (error) return try_again(line, error.message());
                     TcpFrame frame;
                     try {
                       frame = read_tcp_frame(line.greeting, 0);
                       if (frame.kind == TcpFrame::Kind::goodbye)
                         return lose(line.peer, "it has given up the connection for good");
                       if (frame.kind != TcpFrame::Kind::welcome) throw WireError("no welcome");
                     } catch (const WireError& wrong) {
                       return lose(line.peer, fmt::format("somebody else answers at its address: {}", wrong.what()));
                     }
                     line.number = line.known = line.tried;
                     begin(line, frame.sequence, false);
                   });
}

// A newer connection replaces the present one: the peer knows that it is broken. Of two connections that are made at
// the same time, both sides keep that of the lower rank if it has come so far that the other will hear of it.
void TcpLines::take_over(const TcpHello& hello, std::shared_ptr<TcpStream> stream) {
  Line& line = line_of(static_cast<int>(hello.from));
  if (line.state == Line::State::closed) return send_away(stream);
  const bool ours_is_kept = line.state == Line::State::greeting && rank_ < line.peer;
  if (ours_is_kept || hello.connection <= line.number || hello.last < line.known) return;
  drop(line);
  line.number = hello.connection;
  line.known = hello.last;
  if (!hello.place.empty()) line.place = hello.place;
  line.stream = std::move(stream);
  limit_silence(line.stream->socket(), deadline_);
  begin(line, hello.due, true);
}

// The line goes on with its new connection. The peer has all frames before `due`.
void TcpLines::begin(Line& line, std::uint64_t due, bool with_welcome) {
  prepare_to_carry(line.stream->socket());
  line.state = Line::State::open;
  line.since = Clock::now();
  std::size_t complete = 0;
  try {
    complete = line.outgoing.begin_again(due);
  } catch (const WireError& error) {
    return lose(line.peer, error.what());
  }
  if (with_welcome) line.outgoing.say(TcpFrame::Kind::welcome, line.incoming.due());
  const unsigned turn = line.turn;
  for (; complete > 0 && turn == line.turn; --complete) owner_.sent(line.peer);
  write(line);
  read(line);
}

void TcpLines::write(Line& line) {
  if (line.writing || line.state != Line::State::open) return;
  const auto [head, data] = line.outgoing.next();
  if (head.empty() && data.empty()) return;
  const std::array<asio::const_buffer, 2> rest{asio::buffer(head.data(), head.size()),
                                               asio::buffer(data.data(), data.size())};
  line.writing = true;
  line.stream->async_write_some(rest,
                                [this, &line, turn = line.turn](const asio::error_code& error, std::size_t bytes) {
                                  if (turn != line.turn) return;
                                  line.writing = false;
                                  if (error) return break_off(line, error);
                                  if (line.outgoing.written(bytes) > 0) owner_.sent(line.peer);
                                  write(line);
                                });
}

void TcpLines::read(Line& line) {
  if (line.reading || line.state != Line::State::open) return;
  const unsigned turn = line.turn;
  try {
    line.incoming.use(line.outgoing);
  } catch (const WireError& error) {
    return lose(line.peer, error.what());
  }
  if (turn != line.turn) return;  // closed by the owner
  if (line.incoming.must_acknowledge()) line.outgoing.say(TcpFrame::Kind::ack, line.incoming.due());
  write(line);
  const auto [room, staged] = line.incoming.space();
  if (room.empty() && staged.empty()) return;
  const std::array<asio::mutable_buffer, 2> space{asio::buffer(room.data(), room.size()),
                                                  asio::buffer(staged.data(), staged.size())};
  line.reading = true;
  line.stream->async_read_some(space,
                               [this, &line, turn = line.turn](const asio::error_code& error, std::size_t bytes) {
                                 if (turn != line.turn) return;
                                 line.reading = false;
                                 if (error) return break_off(line, error);
                                 line.incoming.took(bytes);
                                 read(line);
                               });
}

}  // namespace sotto
