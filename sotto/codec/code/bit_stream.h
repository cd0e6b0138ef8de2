#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "sotto/core/error.h"

namespace sotto {

// Writes bits to a byte stream, the least significant first. Bits that do not fit are dropped, and size() then returns
// nothing.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> out) : out_(out) {}

  // REQUIRES count <= 56 and value < 2^count.
  void put(std::uint64_t value, unsigned count) {
    word_ |= value << bits_;
    bits_ += count;
    if (out_.size() - used_ >= sizeof(word_)) {
      std::memcpy(&out_[used_], &word_, sizeof(word_));
      used_ += bits_ / 8;
      word_ >>= bits_ / 8 * 8;
      bits_ %= 8;
    } else {
      put_bytes();
    }
  }
  // Elias gamma code of a value of 1 or more: as many zeros as there are bits below the highest one, then a one, then
  // those lower bits.
  void put_gamma(std::uint32_t value) {
    const auto below = static_cast<unsigned>(std::bit_width(value)) - 1;
    put(std::uint64_t{1} << below, below + 1);
    put(value - (std::uint32_t{1} << below), below);
  }
  // The number of bytes written; zeros pad the last byte.
  std::optional<std::size_t> size() {
    if (bits_ > 0) {
      bits_ = 8;
      put_bytes();
    }
    return full_ ? std::nullopt : std::optional(used_);
  }

 private:
  void put_bytes() {
    for (; bits_ >= 8; bits_ -= 8, word_ >>= 8) {
      if (used_ < out_.size()) {
        out_[used_++] = static_cast<std::byte>(word_);
      } else {
        full_ = true;
      }
    }
  }
  std::span<std::byte> out_;
  std::size_t used_ = 0;
  std::uint64_t word_ = 0;
  unsigned bits_ = 0;  // in word_, below 8 between calls
  bool full_ = false;
};

// Reads what BitWriter wrote, from untrusted bytes: WireError if they are too few.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : in_(in) {}

  // The next bits, at least `most` (which is at most 56); zeros follow the last byte.
  std::uint64_t peek(unsigned most) {
    if (bits_ < most) fill();
    return word_;
  }
  void skip(unsigned count) {
    if (count > bits_) throw WireError("a code that ends too early");
    word_ = count < 64 ? word_ >> count : 0;
    bits_ -= count;
  }
  std::uint64_t get(unsigned count) {
    const std::uint64_t value = peek(count) & ((std::uint64_t{1} << count) - 1);
    skip(count);
    return value;
  }
  // At most 2^25.
  std::uint32_t get_gamma() {
    const std::uint64_t next = peek(56);
    const auto below = static_cast<unsigned>(std::countr_zero(next));
    if (below > 25) throw WireError("Elias gamma of a number that is too large, or is cut off");
    skip(below + 1);
    return std::uint32_t{1} << below | static_cast<std::uint32_t>(get(below));
  }
  // Returns the number of bytes that were read, at least in part. The unread bits of the last one must be zero.
  std::size_t finish() {
    if ((word_ & ((std::uint64_t{1} << bits_ % 8) - 1)) != 0) throw WireError("bits after a code that are not zero");
    return at_ - bits_ / 8;
  }

 private:
  void fill() {
    if (in_.size() - at_ >= sizeof(word_)) {
      std::uint64_t next = 0;
      std::memcpy(&next, &in_[at_], sizeof(next));
      const unsigned bytes = (63 - bits_) / 8;
      word_ |= (next & ((std::uint64_t{1} << 8 * bytes) - 1)) << bits_;
      at_ += bytes;
      bits_ += 8 * bytes;
      return;
    }
    for (; bits_ <= 56 && at_ < in_.size(); bits_ += 8) word_ |= std::uint64_t(in_[at_++]) << bits_;
  }
  std::span<const std::byte> in_;
  std::size_t at_ = 0;
  std::uint64_t word_ = 0;
  unsigned bits_ = 0;  // unread bits in word_; the bits above them are zero
};

}  // namespace sotto
