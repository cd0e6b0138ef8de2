#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sotto {

// The header of everything that goes over a connection of the transport `tcp`, 24 bytes, little-endian: a magic word,
// the kind, three zero bytes, the sequence number and the length. The first frame of the rank that connects is a hello,
// and that of the other one a welcome.
//
// A message goes in pieces: the first frame has its kind, the others are `more`. The length of a frame counts all bytes
// from its piece to the end of the message; the frame has as many as fit into a piece. Each direction counts its frames
// from 1 and goes on counting on the next connection, so a frame that is lost, repeated or moved is found. Welcome and
// ack are not counted; instead of their own number they have that of the first frame that has not arrived. A goodbye in
// place of a welcome says that the line is closed for ever. Data of `stripes` are the length of a message that comes
// over several connections (tcp_stripes.h).
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
  static constexpr std::size_t piece = 512 << 10;  // the data of a frame, at most

  Kind kind = Kind::message;
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;  // in bytes

  std::size_t data_bytes() const { return static_cast<std::size_t>(std::min<std::uint64_t>(length, piece)); }
  std::size_t all_bytes() const { return bytes + data_bytes(); }
};

// The number of frames for a message of that length.
constexpr std::uint64_t pieces_of(std::size_t length) {
  return length == 0 ? 1 : (length + TcpFrame::piece - 1) / TcpFrame::piece;
}

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room);
// Reads the first TcpFrame::bytes of `data`. WireError if it is no frame, or one that counts and has another number.
TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence);

// A secret of one listening rank, which it leaves where only members of the job look. It does not protect against an
// attacker who reads the network.
using TcpKey = std::array<std::byte, 16>;

// The first frame of a rank that connects, with its data.
struct TcpHello {
  static constexpr std::size_t place_bytes = 104;
  static constexpr std::size_t bytes = TcpFrame::bytes + 40 + sizeof(TcpKey) + place_bytes;

  std::uint32_t from = 0, to = 0, size = 0;  // ranks, and their number
  std::uint64_t connection = 1;              // between these two, in the order in which they were tried
  std::uint64_t last = 0;                    // the last one that its sender knows to have been made
  std::uint64_t due = 1;                     // the number of the first frame that has not arrived
  TcpKey key{};                              // of the rank that listens
  std::string place;                         // where the rank that connects listens; empty if it does not fit
};

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room);
// WireError if it is no hello, or of another version.
TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data);

}  // namespace sotto
