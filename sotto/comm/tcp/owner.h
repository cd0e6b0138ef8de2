#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "sotto/comm/tcp/frame.h"

namespace sotto {

// The user of TcpLines. Its functions are called on the thread that runs the io_context, or from within
// TcpLines::send() and resume().
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

}  // namespace sotto
