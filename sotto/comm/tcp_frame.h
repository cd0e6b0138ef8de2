#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// The header of everything that goes over a connection of the transport `tcp`, 24 bytes, little-endian: a magic word,
// the kind, three zero bytes, the sequence number and the length of the data that follow. Each direction of a
// connection counts its frames from 0, so a frame that is lost, repeated or moved is found. The first frame of the rank
// that connects is a hello, and that of the other one a welcome.
struct TcpFrame {
  enum class Kind : std::uint8_t { hello = 1, welcome = 2, message = 3, goodbye = 4, thanks = 5 };
  static constexpr std::size_t bytes = 24;

  Kind kind = Kind::message;
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;  // of the data, in bytes
};

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room);
// Reads the first TcpFrame::bytes of `data`. WireError if it is no frame, or not the one with that sequence number.
TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence);

// A secret of one listening rank, which it leaves where only members of the job look. It does not protect against an
// attacker who reads the network.
using TcpKey = std::array<std::byte, 16>;

// The first frame of a rank that connects, with its data.
struct TcpHello {
  static constexpr std::size_t bytes = TcpFrame::bytes + 16 + sizeof(TcpKey);

  std::uint32_t from = 0, to = 0, size = 0;  // ranks, and their number
  TcpKey key{};                              // of the rank that listens
};

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room);
// WireError if it is no hello, or of another version.
TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data);

}  // namespace sotto
