#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// The 32 bytes at the front of every message, little-endian (docs/wire). `crc` is the CRC-32 of the 28 bytes before it
// and of the body, so a flipped bit anywhere is found.
struct Header {
  static constexpr std::uint16_t magic_value = 0x6F73;  // "so"
  static constexpr std::uint8_t current_version = 1;

  std::uint16_t magic = magic_value;
  std::uint8_t version = current_version;
  // The chain's flags: which index code it used, and whether the body went through a code stage. 0x80 alone: see
  // Round::declined.
  std::uint8_t flags = 0;
  std::uint16_t generation = 0;  // of the group of ranks; counts membership changes
  std::uint16_t origin = 0;      // the rank that encoded it
  std::uint32_t step = 0;
  std::uint16_t bucket = 0;
  std::uint16_t part = 0;      // which part of the bucket, in the order given to encode()
  std::uint32_t elements = 0;  // of the part, padding included
  std::uint32_t body_bytes = 0;
  std::uint32_t contract = 0;  // hash of the codec's canonical text and of the part's layout
  std::uint32_t crc = 0;
};
static_assert(sizeof(Header) == 32);

// What a receiver knows about the message that it expects.
struct Expected {
  std::uint16_t generation = 0;
  std::uint16_t origin = 0;
  std::uint32_t step = 0;
  std::uint16_t bucket = 0;
  std::uint16_t part = 0;
};

// A checked message: magic and version are right, it is complete, its checksum is right. The bytes are borrowed.
class MessageView {
 public:
  // `bytes` may be longer than the message (a receive buffer); the header says where it ends. Throws WireError.
  static MessageView parse(std::span<const std::byte> bytes);

  // The length that the header of a message at the front of a receive buffer claims, before the message is checked. If
  // the buffer holds no message, or a shorter one than claimed: the size of the buffer. Used to count bytes
  // (Recv::length).
  static std::size_t announced_size(std::span<const std::byte> buffer);

  // WireError unless generation, origin, step, bucket and part are as expected.
  void expect(const Expected& expected) const;

  const Header& header() const { return header_; }
  std::span<const std::byte> body() const { return body_; }
  std::size_t size() const { return sizeof(Header) + body_.size(); }

 private:
  friend class Message;
  Header header_;
  std::span<const std::byte> body_;
};

// A stretch of a body, and its CRC-32 (kernels/checksum.h).
struct SummedBytes {
  Range range;
  std::uint32_t crc = 0;
};

// A message in a buffer that is reused from step to step: begin() grows it to the largest size once, finish() seals it.
class Message {
 public:
  // Room for a body of at most `max_body` bytes, uninitialised.
  std::span<std::byte> begin(std::size_t max_body);
  // Fills in body_bytes and crc of the header, and writes it in front of the body, which has `body_bytes` bytes.
  // `summed` is a stretch of the body whose CRC-32 is known already.
  void finish(Header header, std::size_t body_bytes, const SummedBytes& summed = {});

  std::span<const std::byte> bytes() const { return {buffer_.data(), size_}; }
  MessageView view() const;  // for the sender itself: the message is not checked again

 private:
  std::vector<std::byte> buffer_;
  std::size_t size_ = 0;
};

}  // namespace sotto
