#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sotto/kernels/run.h"

namespace sotto::kernels {

// Kernels are loops over spans. They do not allocate or check their arguments, and give the same result at every
// optimisation level and vector length. Bytes of a message may have any alignment.

// Loads or stores element i of an array of T with any alignment, such as bytes of a message. Compiles to one plain load
// or store.
template <class T>
inline T load(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
inline void store(std::byte* bytes, std::size_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

constexpr std::size_t packed_bytes(std::size_t symbols, unsigned width) { return (symbols * width + 7) / 8; }

// Whether the unused bits of the last byte, after `bits` bits, are zero. REQUIRES packed.size() == (bits + 7) / 8.
constexpr bool tail_is_zero(std::span<const std::byte> packed, std::size_t bits) {
  return bits % 8 == 0 || (packed.back() >> (bits % 8)) == std::byte{0};
}

// Symbol i takes the bits [i*width, (i+1)*width) of `out`. Bit b of `out` is bit b%8 of byte b/8, counted from the
// least significant; the bits after the last symbol are zero. REQUIRES 1 <= width <= 16, symbols below 2^width, and
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

// Packs symbols 0 to 2, five per byte, b = s0 + 3 s1 + 9 s2 + 27 s3 + 81 s4, in groups of 320 symbols, which are 64
// bytes. Byte j of a group of n bytes holds its symbols j, j + n, j + 2n, j + 3n, j + 4n, so that a vector of bytes is
// made of five vectors of symbols. The last group may be shorter: n = ceil(symbols / 5) bytes, padded with symbols 0.
inline constexpr std::size_t trit_group = 320;
constexpr std::size_t trit_bytes(std::size_t symbols) { return (symbols + 4) / 5; }

// REQUIRES out.size() == trit_bytes(symbols.size()).
void pack_trits(std::span<const std::uint16_t> symbols, std::span<std::byte> out);
void unpack_trits(std::span<const std::byte> in, std::span<std::uint16_t> symbols);
// Whether pack_trits() could have written `in` for this number of symbols.
bool valid_trits(std::span<const std::byte> in, std::size_t symbols);

// counts[s] += how often s occurs. REQUIRES symbols below counts.size(), counts.size() <= 512, and fewer than 2^32
// symbols.
void count_symbols(std::span<const std::uint16_t> symbols, std::span<std::uint32_t> counts);

// Packs signs, least significant bit first: bit i is 1 if values[i] < 0 (both zeros count as positive). The bits after
// the last value are zero. Returns sum_abs(values) (reduce.h) from the same pass. REQUIRES
// out.size() == (values.size() + 7) / 8.
double pack_signs(std::span<const float> values, std::span<std::byte> out);
// The same, but the bit of a zero is the highest bit of its random number.
double pack_drawn_signs(std::span<const float> values, const Draws& draws, std::span<std::byte> out);
// out[i] -= magnitude if bit first + i of `in` is 1, else out[i] += magnitude.
void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out);

}  // namespace sotto::kernels
