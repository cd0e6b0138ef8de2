#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Kernels are loops over spans. They do not allocate or check their arguments, and give the same result at every
// optimisation level and vector length. Bytes of a message may have any alignment.
namespace sotto::kernels {

constexpr std::size_t packed_bytes(std::size_t symbols, unsigned width) { return (symbols * width + 7) / 8; }

// Whether the unused bits of the last byte, after `bits` bits, are zero. REQUIRES packed.size() == (bits + 7) / 8.
constexpr bool tail_is_zero(std::span<const std::byte> packed, std::size_t bits) {
  return bits % 8 == 0 || (packed.back() >> (bits % 8)) == std::byte{0};
}

// Symbol i takes the bits [i*width, (i+1)*width) of `out`, bit b of the stream being bit b%8 of byte b/8, least
// significant first; the bits after the last symbol are zero. REQUIRES 1 <= width <= 16, symbols below 2^width, and
// out.size() == packed_bytes(symbols.size(), width).
void pack_bits(std::span<const std::uint16_t> symbols, unsigned width, std::span<std::byte> out);

// The same for levels, bytes in two's complement: the levels 0, -1, 1, -2, 2, .. become the symbols 0, 1, 2, 3, 4, ..
// (levels.h). REQUIRES 2 <= width <= 8.
void pack_levels(std::span<const std::byte> levels, unsigned width, std::span<std::byte> out);

// The reverse of pack_bits. REQUIRES in.size() == packed_bytes(symbols.size(), width).
void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint16_t> symbols);

// The same for widths up to 32.
void pack_bits(std::span<const std::uint32_t> symbols, unsigned width, std::span<std::byte> out);
void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint32_t> symbols);

}  // namespace sotto::kernels
