// How a rank connects to a peer: that part of TcpLines.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <exception>
#include <string_view>
#include <utility>

#include "sotto/comm/group/meeting.h"
#include "sotto/comm/tcp/line.h"
#include "sotto/comm/tcp/lines.h"
#include "sotto/comm/tcp/socket.h"
#include "sotto/comm/tcp/through_relay.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using Tcp = asio::ip::tcp;

// `places` has a line for each stream of the peer.
TcpPlace place_of_stream(std::string_view places, std::size_t number, std::int64_t streams) {
  const auto theirs = std::ranges::count(places, '\n') + 1;
  if (theirs != streams) {
    throw ConfigError(fmt::format("{}: this rank has {}, and that one {}; give all ranks the same number",
                                  named("streams"), streams, theirs));
  }
  for (std::size_t i = 0; i < number; ++i) places.remove_prefix(places.find('\n') + 1);
  return read_tcp_place(std::string(places.substr(0, places.find('\n'))));
}

}  // namespace

void TcpLines::connect(Line& line) {
  if (line.state == Line::State::unused) line.since = Clock::now();
  line.state = Line::State::connecting;
  TcpPlace place;
  try {
    if (!line.place) {
      const auto text = owner_.place_of(line.peer);
      if (!text || text->empty()) return connect_later(line, Line::shortest_pause);
      line.place = place_of_stream(*text, number_, settings_.options.streams);
    }
    place = *line.place;
    if (place.secret.has_value() != (settings_.tls != nullptr)) {
      throw ConfigError(fmt::format("{} has a {}, and {} has none; give all ranks the same one",
                                    place.secret ? "it" : "this rank", named("secret"),
                                    place.secret ? "this rank" : "it"));
    }
    if (place.secret && *place.secret != settings_.tls->fingerprint(place.key)) {
      throw ConfigError(fmt::format("its {} is another one; give all ranks the same one", named("secret")));
    }
  } catch (const std::exception& error) {
    return lose(line.peer, error.what());
  }
  if (leaves_it_to_the_peer(line, place)) return;
  line.heard = Clock::now();
  line.tried = std::max(line.number, line.tried) + 1;
  write_hello(
      {static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(line.peer), static_cast<std::uint32_t>(size_),
       line.tried, line.number, line.incoming.due(), place.key, packed(door_.place())},
      line.greeting);
  const Tcp::endpoint door =
      place.relay && settings_.relay ? *settings_.relay : Tcp::endpoint(place.address, place.port);
  line.stream = std::make_shared<TcpStream>(Tcp::socket(io_));
  prepare_to_connect(line.stream->socket(), door.protocol());
  line.stream->socket().async_connect(
      door, [this, &line, relay = place.relay, turn = line.turn](const asio::error_code& error) {
        if (turn != line.turn) return;
        if (error == asio::error::connection_refused && !relay) return lose(line.peer, peer_ended);
        if (error) return try_again(line, relay ? "the relay: " + error.message() : error.message());
        limit_silence(line.stream->socket(), settings_.deadline.least());
        prepare_to_carry(line.stream->socket());
        if (relay) return call(line, *relay);
        prove(line);
      });
}

// If the peer has a relay and this rank has none, this rank at first leaves it to the peer to connect: that way is
// direct.
bool TcpLines::leaves_it_to_the_peer(Line& line, const TcpPlace& place) {
  constexpr std::chrono::milliseconds head_start(300);
  const auto until = line.since + head_start;
  if (!place.relay || settings_.relay || Clock::now() >= until) return false;
  line.again.expires_at(until);
  line.again.async_wait([this, &line, turn = line.turn](const asio::error_code&) {
    if (turn == line.turn) connect(line);
  });
  return true;
}

void TcpLines::call(Line& line, const RelayId& door) {
  call_relay(line.stream, door, [this, &line, turn = line.turn](const asio::error_code& error, RelayWord::Kind answer) {
    if (turn != line.turn) return;
    if (error) return try_again(line, "through the relay: " + error.message());
    switch (answer) {
      case RelayWord::Kind::joined: return prove(line);
      case RelayWord::Kind::gone: return lose(line.peer, peer_ended);
      default: return try_again(line, "it is not at the relay");
    }
  });
}

// Somebody who changes a handshake on the way can make it fail like one with another secret. An attempt that fails is
// therefore only repeated; that the peer's secret is another one is known from the peer's place.
void TcpLines::prove(Line& line) {
  line.stream->start(settings_.tls.get(), TcpStream::Side::client,
                     [this, &line, turn = line.turn](const asio::error_code& error) {
                       if (turn != line.turn) return;
                       if (!error) return greet(line);
                       try_again(line, error.message());
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
                     } catch (const DamagedFrame&) {
                       return try_again(line, "what answered was no welcome, or was changed on the way");
                     } catch (const WireError& wrong) {
                       return lose(line.peer, fmt::format("somebody else answers at its address: {}", wrong.what()));
                     }
                     line.number = line.known = line.tried;
                     begin(line, frame.sequence, false);
                   });
}

}  // namespace sotto
