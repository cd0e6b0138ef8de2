#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

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

}  // namespace sotto::kernels
