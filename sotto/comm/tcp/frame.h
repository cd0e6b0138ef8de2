#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/error.h"

namespace sotto {

// The header of everything that goes over a connection of the transport `tcp`, except the hello at its beginning
// (TcpHello). 24 bytes, little-endian: the CRC-32 of the other 20 bytes (u32), the CRC-32 of the data (u32), the
// sequence number (u64), the length (7 bytes), the kind (1 byte). A frame that was changed on the way is therefore not
// used. The first frame from the rank that listens is a welcome.
//
// A message goes in pieces, with one frame for each. The first frame has the message's kind, the others have the kind
// `more`. The length in a frame counts all bytes from its piece to the end of the message; the frame carries at most
// `piece` of them. Each direction counts its frames from 1 and continues to count on the next connection, so a frame
// that is lost, repeated or moved is found. Welcome and ack are not counted: their number is the number of the first
// frame that has not arrived. A goodbye in place of a welcome says that the line is closed for ever. The data of a
// `stripes` frame are the length of a message that comes over several connections (peers.h).
struct TcpFrame {
  enum class Kind : std::uint8_t {
    hello = 1,
    welcome = 2,
    message = 3,
    goodbye = 4,
    thanks = 5,
    more = 6,
    ack = 7,
    stripes = 8
  };
  static constexpr std::size_t bytes = 24;
  static constexpr std::size_t piece = 256 << 10;  // the data of a frame, at most

  Kind kind = Kind::message;
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;  // in bytes, less than 2^56
  std::uint32_t crc = 0;     // of the data of this frame

  std::size_t data_bytes() const { return static_cast<std::size_t>(std::min<std::uint64_t>(length, piece)); }
  std::size_t all_bytes() const { return bytes + data_bytes(); }
};

// The number of frames for a message of that length.
constexpr std::uint64_t pieces_of(std::size_t length) {
  return length == 0 ? 1 : (length + TcpFrame::piece - 1) / TcpFrame::piece;
}

// A frame was changed on the way, or its sender is no rank. The frame must come again, over another connection.
class DamagedFrame : public WireError {
 public:
  using WireError::WireError;
};

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room);
// Reads the first TcpFrame::bytes of `data`. DamagedFrame if these bytes are no header. WireError if a frame that
// counts has another number than `sequence`, or if no rank sends such a frame.
TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence);

// A secret key of one listening rank, which the rank leaves where only members of the job look. It does not protect
// against an attacker who reads the network.
using TcpKey = std::array<std::byte, 16>;

// What a rank that connects says first. In all versions it has the same length, and its first 28 bytes have the same
// layout, so that a rank notices another version. They are a magic word (u32), the kind (u32), 0 (u64), the number of
// bytes after the first 24 (u64) and the version (u32). Then come the fields below, and the CRC-32 of all (u32).
struct TcpHello {
  using Place = std::array<std::byte, 100>;
  static constexpr std::size_t bytes = 24 + 40 + sizeof(TcpKey) + sizeof(Place) + 4;
  static_assert(bytes == 184, "as in all versions");

  std::uint32_t from = 0, to = 0, size = 0;  // ranks, and their number
  std::uint64_t connection = 1;              // number between these two, in the order of attempts
  std::uint64_t last = 0;                    // number of the last one that the sender knows to be made
  std::uint64_t due = 1;                     // the number of the first frame that has not arrived
  TcpKey key{};                              // of the rank that listens
  Place place{};                             // where the rank that connects listens (door.h)
};

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room);
// WireError if it is no hello, of another version, or damaged.
TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data);

}  // namespace sotto
