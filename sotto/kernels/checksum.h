#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// The CRC-32 (zlib's polynomial) of earlier bytes followed by these bytes. `crc` is the CRC-32 of the earlier bytes: 0
// if there are none.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);

// The CRC-32 of consecutive stretches, computed from the CRC-32 of each: stretches can be summed in any order, each
// while it is in the cache. Fast if all stretches have the same length.
class JoinedCrc {
 public:
  void add(std::uint32_t crc, std::size_t bytes);
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
  std::size_t bytes_ = 0;  // the length that shift_ is for
  std::uint32_t shift_ = 0x80000000U;
};

}  // namespace sotto::kernels
