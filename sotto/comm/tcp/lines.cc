#include "sotto/comm/tcp/lines.h"

#include <fmt/format.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/write.hpp>

#include "sotto/comm/tcp/line.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;

// Says that the line is closed for ever, instead of a welcome.
void send_away(const std::shared_ptr<TcpStream>& stream) {
  const auto word = std::make_shared<std::array<std::byte, TcpFrame::bytes>>();
  write_frame({TcpFrame::Kind::goodbye, 0, 0}, *word);
  asio::async_write(*stream, asio::buffer(*word), [word](const asio::error_code&, std::size_t) {});
}

std::string why_broken(const asio::error_code& error) {
  return is_closed(error) ? "the connection was closed" : "the connection broke: " + error.message();
}

}  // namespace

TcpLines::TcpLines(asio::io_context& io, int rank, int size, const TcpSettings& settings, TcpOwner& owner,
                   std::size_t number)
    : io_(io),
      rank_(rank),
      size_(size),
      settings_(settings),
      owner_(owner),
      number_(number),
      door_(io, rank, size, settings_,
            [this](const TcpHello& hello, const std::optional<TcpPlace>& place, std::shared_ptr<TcpStream> stream) {
              take_over(hello, place, std::move(stream));
            }),
      lines_(static_cast<std::size_t>(size)),
      pulse_(io, settings_.deadline, [this] { beat(); }) {}

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

// The owner waits for the peer from now on.
void TcpLines::note_wait(Line& line) const {
  line.asked = Clock::now();
  line.until = line.asked + settings_.deadline.from_now();
}

void TcpLines::send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  note_wait(line);
  line.outgoing.add(kind, data);
  if (line.state == Line::State::unused) return connect(line);
  write(line);
}

void TcpLines::resume(int peer) {
  Line& line = line_of(peer);
  if (line.state == Line::State::closed) return owner_.lost(peer, line.reason);
  note_wait(line);
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
  line.heard = Clock::now();
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

void TcpLines::break_off(Line& line, const std::string& why) {
  drop(line);
  const std::uint64_t carried = line.incoming.due() + line.outgoing.acknowledged();
  if (carried > std::exchange(line.carried, carried) || Clock::now() - line.since >= 1s)
    line.pause = Line::shortest_pause;
  line.since = Clock::now();
  line.broken = why;
  line.failed.clear();
  connect_later(line, line.pause);
}

// A frame that is damaged once may arrive the next time; one that is damaged again and again will not. Acknowledgements
// have no number: a damaged one that follows good ones does not count as the same frame as before.
void TcpLines::damaged(Line& line, const std::string& what) {
  const std::uint64_t due = line.incoming.due();
  const bool again = due == std::exchange(line.damaged, due) && !line.incoming.hears_acknowledgements();
  line.damages = again ? line.damages + 1 : 1;
  if (line.damages == Line::most_damages) {
    return lose(line.peer, fmt::format("{}, {} times, over as many connections: something between the two ranks "
                                       "changes what they send",
                                       what, line.damages));
  }
  if (Clock::now() - line.told >= 1s) {
    line.told = Clock::now();
    print_error(
        fmt::format("sotto: rank {}: what rank {} sent was changed on the way: {}; it comes again over a new "
                    "connection\n",
                    rank_, line.peer, what));
  }
  break_off(line, "what came over the connection was damaged: " + what);
}

// Tries again to connect. The peer is lost if the deadline has passed since the first attempt and since the owner last
// asked for the peer, and if the operation that asked has timed out. Time in which the owner was busy does not count.
void TcpLines::try_again(Line& line, const std::string& why) {
  drop(line);
  line.failed = why;
  const auto now = Clock::now();
  if (now - std::max(line.since, line.asked) >= settings_.deadline.by_last_lap() && now >= line.until)
    return lose(line.peer, trouble(line.peer));
  connect_later(line, line.pause);
}

void TcpLines::connect_later(Line& line, std::chrono::milliseconds pause) {
  line.state = Line::State::connecting;
  line.pause = std::min(2 * pause, Line::longest_pause);
  line.again.expires_after(pause);
  line.again.async_wait([this, &line, turn = line.turn](const asio::error_code&) {
    if (turn == line.turn) connect(line);
  });
}

// Peers hear that this rank is there, even if it has nothing to send. If a connection brings nothing for long, a
// machine on the way may have forgotten it, or drop all its data. Perhaps the peer is only busy or stopped, but then a
// new connection does no harm.
void TcpLines::beat() {
  for (const auto& one : lines_) {
    if (!one || !one->stream) continue;
    Line& line = *one;
    const bool open = line.state == Line::State::open;
    if ((open ? line.reading : line.state != Line::State::closed) && pulse_.too_silent(line.heard)) {
      const double seconds = std::chrono::duration<double>(Clock::now() - line.heard).count();
      const std::string why = fmt::format("silent for {:.1f} s", seconds);
      open ? break_off(line, "the connection was " + why) : try_again(line, "it was " + why);
    } else if (open && !line.incoming.over()) {
      line.outgoing.say(TcpFrame::Kind::ack, line.incoming.acknowledge());
      write(line);
    }
  }
}

// A newer connection replaces the present one: the peer knows that the present one is broken. Of two connections that
// are made at the same time, both sides keep the one from the lower rank, if that rank has begun to send its hello.
void TcpLines::take_over(const TcpHello& hello, const std::optional<TcpPlace>& place,
                         std::shared_ptr<TcpStream> stream) {
  Line& line = line_of(static_cast<int>(hello.from));
  if (line.state == Line::State::closed) return send_away(stream);
  const bool ours_is_kept = line.state == Line::State::greeting && rank_ < line.peer;
  if (ours_is_kept || hello.connection <= line.number || hello.last < line.known) return;
  drop(line);
  line.number = hello.connection;
  line.known = hello.last;
  if (place) line.place = place;
  line.stream = std::move(stream);
  limit_silence(line.stream->socket(), settings_.deadline.least());
  prepare_to_carry(line.stream->socket());
  begin(line, hello.due, true);
}

// The line continues with its new connection. The peer has all frames before `due`.
void TcpLines::begin(Line& line, std::uint64_t due, bool with_welcome) {
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
                                  if (error) return break_off(line, why_broken(error));
                                  if (line.outgoing.written(bytes) > 0) owner_.sent(line.peer);
                                  write(line);
                                });
}

void TcpLines::read(Line& line) {
  if (line.reading || line.state != Line::State::open) return;
  const unsigned turn = line.turn;
  try {
    line.incoming.use(line.outgoing);
  } catch (const DamagedFrame& error) {
    return damaged(line, error.what());
  } catch (const WireError& error) {
    return lose(line.peer, error.what());
  }
  if (turn != line.turn) return;  // closed by the owner
  if (line.incoming.must_acknowledge()) line.outgoing.say(TcpFrame::Kind::ack, line.incoming.acknowledge());
  write(line);
  const auto [room, staged] = line.incoming.space();
  if (room.empty() && staged.empty()) return;
  const std::array<asio::mutable_buffer, 2> space{asio::buffer(room.data(), room.size()),
                                                  asio::buffer(staged.data(), staged.size())};
  line.reading = true;
  line.heard = Clock::now();
  line.stream->async_read_some(space,
                               [this, &line, turn = line.turn](const asio::error_code& error, std::size_t bytes) {
                                 if (turn != line.turn) return;
                                 line.reading = false;
                                 if (error) return break_off(line, why_broken(error));
                                 line.incoming.took(bytes);
                                 read(line);
                               });
}

}  // namespace sotto
