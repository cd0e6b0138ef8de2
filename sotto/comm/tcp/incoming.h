#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/comm/tcp/frame.h"
#include "sotto/comm/tcp/outgoing.h"
#include "sotto/comm/tcp/peers.h"

namespace sotto {

// What a rank receives from a peer, over one connection after another. Data go directly into the room of the owner;
// other bytes go into a buffer first. If a connection breaks, the piece that was arriving is sent again, into the same
// room.
class TcpIncoming {
 public:
  using Space = std::array<std::span<std::byte>, 2>;

  TcpIncoming(TcpOwner& owner, int peer);

  // Where the next bytes go: into the first part, then into the second. Both are empty if nothing is to be read now.
  Space space();
  void took(std::size_t bytes);  // so many bytes were put there
  // Hands complete messages to the owner, until bytes are missing or there is no room. Passes acknowledgements on to
  // `outgoing`. DamagedFrame if a frame was changed on the way; WireError if the peer sent something else.
  void use(TcpOutgoing& outgoing);
  // Forgets the incomplete frame: the next connection, if there is one, begins with frame due().
  void begin_again();

  std::uint64_t due() const { return due_; }  // the number of the first frame that has not arrived completely
  bool must_acknowledge() const { return unacknowledged_ >= TcpOutgoing::unacknowledged_bytes; }
  std::uint64_t acknowledge() { return unacknowledged_ = 0, due_; }  // returns what to say
  bool over() const { return over_; }                                // nothing more is read
  bool waits_for_room() const { return frame_ && !room_; }
  // Whether acknowledgements have come over this connection, and the next bytes may be another one.
  bool hears_acknowledgements() const { return acknowledged_ && !frame_; }

 private:
  void begin_frame(const TcpFrame& frame);
  void filled(std::size_t bytes);
  void end_frame();

  TcpOwner& owner_;
  int peer_;
  std::vector<std::byte> staged_;  // the first held_ bytes are used
  std::size_t held_ = 0;
  bool over_ = false;
  unsigned turn_ = 0;  // counts connections
  bool acknowledged_ = false;
  std::uint64_t due_ = 1;
  std::size_t unacknowledged_ = 0;  // bytes

  std::optional<TcpFrame> message_;           // the message that is arriving
  std::size_t rest_ = 0;                      // its bytes that have not arrived in whole pieces
  std::optional<std::span<std::byte>> room_;  // the room for those bytes
  std::optional<TcpFrame> frame_;             // the frame that is arriving
  std::size_t filled_ = 0;                    // bytes of its data that are in the room
  std::uint32_t crc_ = 0;                     // of those
};

}  // namespace sotto
