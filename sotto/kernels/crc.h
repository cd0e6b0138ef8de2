#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// A stretch of bytes folded to a few that have the same CRC-32 (zlib's polynomial, without inversion before and after:
// `state` is that of the shift register before the bytes, and 0 before `rest`).
struct Folded {
  std::size_t used = 0;   // of the bytes given; 0 on processors without carry-less products
  std::size_t bytes = 0;  // of `rest`
  alignas(64) std::byte rest[64];
};
// Several times faster than a table or an instruction of 128 bits where vectors are longer.
void fold_crc32(std::uint32_t state, std::span<const std::byte> bytes, Folded& folded);

}  // namespace sotto::kernels
