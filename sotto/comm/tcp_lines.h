#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/tcp_door.h"
#include "sotto/comm/tcp_frame.h"
#include "sotto/comm/tcp_stream.h"
#include "sotto/comm/tls.h"

namespace sotto {

// One rank's connections to the others, for one communicator or mailbox. A connection to a peer is made when either
// side first sends to it or expects something from it, so a rank has a socket for each peer that it uses, and one that
// listens. Everything runs on the thread that runs the io_context, which must not run any more after the lines are
// destroyed; no function blocks.
//
// If two ranks connect to each other at the same time, the connection that the lower rank makes is kept. A frame that
// is no frame, or that the owner refuses, closes the connection that it came from.
class TcpLines {
 public:
  // The user of the lines. Its functions are called on the thread that runs the io_context, or from within send() and
  // resume().
  class Owner {
   public:
    // What that peer's place() returned, or nothing if it is not known yet. An exception means that the peer is lost.
    virtual std::optional<std::string> place_of(int peer) = 0;
    // A frame has begun to arrive. Returns memory for its data, frame.length bytes. Returns nothing if there is none
    // now: then nothing is read from the peer until resume(peer). WireError if the frame is not welcome: the peer is
    // lost.
    virtual std::optional<std::span<std::byte>> room_for(int peer, const TcpFrame& frame) = 0;
    // All data of that frame are in their room. Returns false if nothing more is to be read from the peer.
    virtual bool received(int peer, const TcpFrame& frame) = 0;
    // The first frame of send() that was not reported yet was handed to the system.
    virtual void sent(int peer) = 0;
    // The connection is closed, and will not be made again. Nothing more is sent to or received from the peer.
    virtual void lost(int peer, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  // Listens at a port of this address that the system chooses. CommError if that is not possible. All ranks must have
  // the same secret, or none: then `tls` is null, and everything can be read on the way.
  TcpLines(asio::io_context& io, int rank, int size, const asio::ip::address& address, std::shared_ptr<const Tls> tls,
           Owner& owner);
  ~TcpLines();
  TcpLines(const TcpLines&) = delete;
  TcpLines& operator=(const TcpLines&) = delete;

  // Where peers find this rank, with its key: text for Owner::place_of() of the others.
  std::string place() const { return door_.place(); }
  // Sends a frame after those that were sent before. The data must stay until Owner::sent(). To a lost peer: lost().
  void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data);
  // There is room for data from the peer: makes the connection if there is none, and goes on reading.
  void resume(int peer);
  // Closes all connections without telling the owner, and refuses new ones.
  void close();

  std::size_t connections() const;  // that are open

 private:
  struct Line;

  Line& line_of(int peer);
  void connect(Line& line);
  void connect_later(Line& line);
  void prove(Line& line);
  void greet(Line& line);
  void hear_welcome(Line& line);
  void opened(Line& line);
  void lose(Line& line, const std::string& reason);

  void take_over(int peer, std::shared_ptr<TcpStream> stream);

  void write(Line& line);
  void written(Line& line, std::size_t bytes);
  void read(Line& line);
  void use_staged(Line& line);

  asio::io_context& io_;
  int rank_, size_;
  std::shared_ptr<const Tls> tls_;
  Owner& owner_;
  TcpDoor door_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank; null: not used yet
};

}  // namespace sotto
