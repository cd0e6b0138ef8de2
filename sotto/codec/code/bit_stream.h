#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "sotto/core/error.h"

namespace sotto {

// Bits of a byte stream, the least significant first. What does not fit is dropped, and size() is then nothing.
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
  // Elias gamma of a value of 1 or more: as many zeros as bits follow its highest one, that one, and those bits.
  void put_gamma(std::uint32_t value) {
    const auto below = static_cast<unsigned>(std::bit_width(value)) - 1;
    put(std::uint64_t{1} << below, below + 1);
    put(value - (std::uint32_t{1} << below), below);
  }
  // Bytes in all, the last one filled with zeros.
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

// The reverse, of bytes from outside: WireError when they do not suffice.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : in_(in) {}

  // The next bits, `most` at least (56 at most): zeros behind the last byte.
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
  // Bytes that were begun; what is left of the last one must be zero.
  std::size_t finish() {
    if ((word_ & ((std::uint64_t{1} << bits_ % 8) - 1)) != 0) throw WireError("bits behind a code that are not zero");
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
  unsigned bits_ = 0;  // of word_ that were read; those above are zero
};

}  // namespace sotto
