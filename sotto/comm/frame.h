#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// The header that a mailbox over Gloo sends before each message's data: 8 bytes, little-endian, the kind in the highest
// byte. MPI and tcp use the kinds alone.
struct Frame {
  enum class Kind : std::uint8_t { mail = 1, goodbye = 2, thanks = 3 };  // `thanks` answers `goodbye`
  static constexpr std::size_t bytes = 8;

  Kind kind = Kind::mail;
  std::size_t length = 0;  // of the data; 0 unless kind is mail
};

void write_frame(const Frame& frame, std::span<std::byte> room);
// WireError if it is no frame, or announces more than `max_bytes`.
Frame read_frame(std::span<const std::byte> data, std::size_t max_bytes);

}  // namespace sotto
