#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Bytes folded to a few bytes `rest` with the same CRC-32 (zlib's polynomial, without inversion before and after). The
// shift register has the value `state` before the bytes, and 0 before `rest`.
struct Folded {
  std::size_t used = 0;   // how many bytes were folded; 0 on processors without carry-less products
  std::size_t bytes = 0;  // of `rest`
  alignas(64) std::byte rest[64];
};
// With vectors longer than 128 bits this is several times faster than a table or 128-bit carry-less products.
void fold_crc32(std::uint32_t state, std::span<const std::byte> bytes, Folded& folded);

}  // namespace sotto::kernels
