#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sotto/comm/tcp/frame.h"

namespace sotto {

struct TcpSettings;

// The user of TcpPeers. Its functions are called on the thread that runs the io_context, or from within
// TcpPeers::send() and resume().
class TcpOwner {
 public:
  // What that peer's place() returned, or nothing if it is not known yet. An exception means that the peer is lost.
  virtual std::optional<std::string> place_of(int peer) = 0;
  // A message has begun to arrive. Returns memory for its data, frame.length bytes, which stays until received().
  // Returns nothing if there is none now: then nothing is read from the peer until resume(peer). WireError if the
  // message is not welcome: the peer is lost.
  virtual std::optional<std::span<std::byte>> room_for(int peer, const TcpFrame& frame) = 0;
  // All data of that message are in their room. Returns false if nothing more is to be read from the peer.
  virtual bool received(int peer, const TcpFrame& frame) = 0;
  // The first message of send() that was not reported yet is on its way, and its memory is not needed any more.
  virtual void sent(int peer) = 0;
  // The connection is closed, and will not be made again. Nothing more is sent to or received from the peer.
  virtual void lost(int peer, const std::string& reason) = 0;

 protected:
  ~TcpOwner() = default;
};

// One rank's connections to the others, for one communicator or mailbox. Everything runs on the thread that runs the
// io_context; do not run it after these are destroyed. No function blocks.
class TcpPeers {
 public:
  TcpPeers() = default;
  virtual ~TcpPeers() = default;
  TcpPeers(const TcpPeers&) = delete;
  TcpPeers& operator=(const TcpPeers&) = delete;

  // Where peers find this rank, with its key: text for TcpOwner::place_of() of the others.
  virtual std::string place() const = 0;
  // Sends a frame after those that were sent before. The data must stay until TcpOwner::sent(). If the peer is lost,
  // calls TcpOwner::lost().
  virtual void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) = 0;
  // Call this when there is room for data from the peer. Makes the connection if there is none, and continues reading.
  virtual void resume(int peer) = 0;
  // Why there is no connection to the peer; empty if there is one, or nothing has gone wrong.
  virtual std::string trouble(int peer) const = 0;
  // How many bytes peers will still acknowledge. If a socket is closed before, the system may throw away what it has
  // not yet sent.
  virtual std::size_t awaited() const = 0;
  // Closes all connections without telling the owner, and refuses new ones.
  virtual void close() = 0;
  virtual std::size_t connections() const = 0;  // that are open
};

// A message with shorter stripes than this, in bytes, is not cut.
constexpr std::size_t least_stripe = 32 << 10;

// For one stream, makes TcpLines. For several streams, makes one TcpLines for each, and cuts a long message into one
// stripe for each connection; all connections carry their stripes at the same time. A short message goes over the first
// connection, which also announces long ones. A TCP connection sends only so much in a round trip, and less after each
// lost packet; several send several times as much. Messages between two ranks come in order.
//
// `io` and `owner` are borrowed. CommError if this rank cannot listen at the address.
std::unique_ptr<TcpPeers> make_tcp_peers(asio::io_context& io, int rank, int size, const TcpSettings& settings,
                                         TcpOwner& owner);

}  // namespace sotto
