#pragma once

#include <cstdint>
#include <string_view>

namespace sotto {

// FNV-1a, 64 bits. Identifies names and shapes, the same on every machine. Not a checksum of data.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    step(0xFF);  // "ab" + "c" differs from "a" + "bc"
  }
  void add(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) step(static_cast<unsigned char>(value >> (8 * i)));
  }
  std::uint64_t value() const { return value_; }
  std::uint32_t folded() const { return static_cast<std::uint32_t>(value_ ^ (value_ >> 32)); }

 private:
  void step(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3ULL; }
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

}  // namespace sotto
