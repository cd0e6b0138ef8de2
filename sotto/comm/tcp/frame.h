#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/error.h"

namespace sotto {

// The header of everything that goes over a connection of the transport `tcp`, but of the hello that begins it (below).
// 24 bytes, little-endian: the CRC-32 of the other 20 bytes (u32), that of the data (u32), the sequence number (u64),
// the length (7 bytes), the kind (1 byte). So nothing of a frame is used that was changed on the way. The first frame
// of the rank that is connected to is a welcome.
//
// A message goes in pieces: the first frame has its kind, the others are `more`. The length of a frame counts all bytes
// from its piece to the end of the message; the frame has as many as fit into a piece. Each direction counts its frames
// from 1 and continues to count on the next connection, so a frame that is lost, repeated or moved is found. Welcome
// and ack are not counted; instead of their own number they have that of the first frame that has not arrived. A
// goodbye in place of a welcome says that the line is closed for ever. Data of `stripes` are the length of a message
// that comes over several connections (peers.h).
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

// A frame was changed on the way, if its sender was a rank at all: it must come again, over another connection.
class DamagedFrame : public WireError {
 public:
  using WireError::WireError;
};

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room);
// Reads the first TcpFrame::bytes of `data`. DamagedFrame if that is no header; WireError if it is one that counts and
// has another number, or one that no rank sends.
TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence);

// A secret of one listening rank, which it leaves where only members of the job look. It does not protect against an
// attacker who reads the network.
using TcpKey = std::array<std::byte, 16>;

// What a rank says that connects. Its length and its first 28 bytes, with the version at their end, are the same in all
// versions, so that a rank of another version can be told so. They are a magic word (u32), the kind (u32), 0 (u64), the
// number of bytes after these 24 (u64) and the version (u32). Then come the fields below, and the CRC-32 of all (u32).
struct TcpHello {
  using Place = std::array<std::byte, 100>;
  static constexpr std::size_t bytes = 24 + 40 + sizeof(TcpKey) + sizeof(Place) + 4;
  static_assert(bytes == 184, "as in all versions");

  std::uint32_t from = 0, to = 0, size = 0;  // ranks, and their number
  std::uint64_t connection = 1;              // between these two, in the order in which they were tried
  std::uint64_t last = 0;                    // the last one that its sender knows to have been made
  std::uint64_t due = 1;                     // the number of the first frame that has not arrived
  TcpKey key{};                              // of the rank that listens
  Place place{};                             // where the rank that connects listens (door.h)
};

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room);
// WireError if it is no hello, of another version, or damaged.
TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data);

}  // namespace sotto
