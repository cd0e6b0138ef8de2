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
#include "sotto/comm/tcp/peers.h"
#include "sotto/comm/tcp/socket.h"
#include "sotto/comm/tcp/stream.h"

namespace sotto {

// One connection to each peer. It is made when either side first sends to the other or expects something from it, so a
// rank has a socket for each peer that it uses, and one that listens.
//
// A connection that breaks is made again by whichever side can, and no message is lost or comes twice. A connection is
// also replaced if a damaged frame came over it, or if nothing came for a quarter of the deadline. While a side runs
// the io_context, it says regularly that it is there. The peer is lost if nobody listens at its door any more (or its
// relay says so), if a new connection cannot be made within the deadline, or if the same frame is damaged again and
// again. A frame that no rank sends, or that the owner refuses, closes the line for ever. If two ranks connect to each
// other at the same time, the connection that the lower rank makes is kept.
class TcpLines final : public TcpPeers {
 public:
  // `number`: the index of this object among options.streams such objects. CommError if this rank cannot listen.
  TcpLines(asio::io_context& io, int rank, int size, const TcpSettings& settings, TcpOwner& owner,
           std::size_t number = 0);
  ~TcpLines() override;

  std::string place() const override { return text_of(door_.place()); }
  void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) override;
  void resume(int peer) override;
  std::string trouble(int peer) const override;
  std::size_t awaited() const override;
  void close() override;
  std::size_t connections() const override;

  // Closes the connection to the peer for ever: lost().
  void lose(int peer, const std::string& reason);

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
  TcpOwner& owner_;
  std::size_t number_;
  TcpDoor door_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank; null: not used yet
  TcpPulse pulse_;
};

}  // namespace sotto
