#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// What a mailbox over a network puts before the data of each message: 8 bytes, little-endian, kind in the highest.
struct Frame {
  enum class Kind : std::uint8_t { mail = 1, goodbye = 2, thanks = 3 };  // the last answers a goodbye
  static constexpr std::size_t bytes = 8;

  Kind kind = Kind::mail;
  std::size_t length = 0;  // of the data; 0 but for mail
};

void write_frame(const Frame& frame, std::span<std::byte> room);
// WireError when it is none, or announces more than `max_bytes`.
Frame read_frame(std::span<const std::byte> data, std::size_t max_bytes);

}  // namespace sotto
