#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/tcp/door.h"
#include "sotto/comm/tcp/frame.h"
#include "sotto/comm/tcp/owner.h"
#include "sotto/comm/tcp/pulse.h"
#include "sotto/comm/tcp/settings.h"
#include "sotto/comm/tcp/stream.h"

namespace sotto {

// One rank's connections to the others, for one communicator or mailbox. A connection to a peer is made when either
// side first sends to it or expects something from it, so a rank has a socket for each peer that it uses, and one that
// listens. Everything runs on the thread that runs the io_context; do not run it after the lines are destroyed. No
// function blocks.
//
// A connection that breaks is made again by whichever side can, and no message is lost or comes twice. So is one over
// which nothing comes for a quarter of the deadline, though both sides say that they are there while they run the
// io_context, and one over which a damaged frame came. The peer is lost if nobody listens at its door any more (or its
// relay says so), if a new connection cannot be made within the deadline, or if the same frame is damaged again and
// again. A frame that no rank sends, or that the owner refuses, closes the line for ever. If two ranks connect to each
// other at the same time, the connection that the lower rank makes is kept.
class TcpLines {
 public:
  using Owner = TcpOwner;

  // `io` and `owner` are borrowed. TcpStripes makes options.streams of these. CommError if this rank cannot listen.
  TcpLines(asio::io_context& io, int rank, int size, const TcpSettings& settings, Owner& owner);
  ~TcpLines();
  TcpLines(const TcpLines&) = delete;
  TcpLines& operator=(const TcpLines&) = delete;

  // Where peers find this rank, with its key: text for Owner::place_of() of the others.
  std::string place() const { return text_of(door_.place()); }
  // Sends a frame after those that were sent before. The data must stay until Owner::sent(). To a lost peer: lost().
  void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data);
  // Call this when there is room for data from the peer. Makes the connection if there is none, and continues reading.
  void resume(int peer);
  // Why there is no connection to the peer; empty if there is one, or nothing has gone wrong.
  std::string trouble(int peer) const;
  // How many bytes peers will still acknowledge. If a socket is closed before, the system may throw away what it has
  // not yet sent.
  std::size_t awaited() const;
  // Closes the connection to the peer for ever: lost().
  void lose(int peer, const std::string& reason);
  // Closes all connections without telling the owner, and refuses new ones.
  void close();

  std::size_t connections() const;  // that are open

 private:
  struct Line;

  Line& line_of(int peer);
  void note_wait(Line& line) const;
  void connect(Line& line);
  void connect_later(Line& line, std::chrono::milliseconds pause);
  void try_again(Line& line, const std::string& why);
  bool leaves_it_to_the_peer(Line& line, const TcpPlace& place);
  void call(Line& line, const RelayId& door);
  void prove(Line& line);
  void greet(Line& line);
  void hear_welcome(Line& line);
  void take_over(const TcpHello& hello, const std::optional<TcpPlace>& place, std::shared_ptr<TcpStream> stream);
  void begin(Line& line, std::uint64_t due, bool with_welcome);
  void drop(Line& line);
  void break_off(Line& line, const std::string& why);
  void damaged(Line& line, const std::string& what);
  void beat();

  void write(Line& line);
  void read(Line& line);

  asio::io_context& io_;
  int rank_, size_;
  TcpSettings settings_;
  Owner& owner_;
  TcpDoor door_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank; null: not used yet
  TcpPulse pulse_;
};

}  // namespace sotto
