#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// The CRC-32 (zlib's polynomial) of what `crc` is the CRC-32 of, and then these bytes. That of nothing is 0.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);

// That of what `a` and then what `b` is of, which is `b_bytes` long: so stretches can be summed in any order, each
// while it is in the cache.
std::uint32_t join_crc32(std::uint32_t a, std::uint32_t b, std::size_t b_bytes);

}  // namespace sotto
