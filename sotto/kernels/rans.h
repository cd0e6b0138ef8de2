#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Range asymmetric numeral systems (Duda, 2013): states of 32 bits that take turns, kept at 2^16 or above by words of
// 16 bits that are taken off them and put back. Symbol i of a stream belongs to state i mod the number of states, a
// power of two.
namespace sotto::kernels {

inline constexpr std::uint32_t rans_lowest = 1U << 16;  // state; the first and the last one
inline constexpr std::size_t rans_most_lanes = 32;      // with so many, the states are in SIMD registers
inline constexpr unsigned rans_most_precision = 14;
inline constexpr std::size_t rans_most_symbols = 512;

// Of symbol s: its frequency << 16 | its start. It has the slots start .. start + frequency of 2^precision.
void rans_ranges(std::span<const std::uint32_t> frequencies, std::span<std::uint32_t> ranges);

// Puts symbols into the states, the last one first; of the stream they are those from a multiple of the number of
// states on. What is taken off the states is written in front of `end`, in the order in which a decoder takes it.
// Returns where it begins. REQUIRES room for two bytes a symbol and 16 bytes more, frequencies that add up to
// 2^precision, and one of every symbol.
std::byte* rans_encode(std::span<const std::uint16_t> symbols, std::span<const std::uint32_t> ranges,
                       unsigned precision, std::span<std::uint32_t> states, std::byte* end);

// What a decoder looks up of each slot: its symbol and its number among those of the symbol; and the frequency, which
// stands beside them while there is room.
struct RansSlots {
  unsigned precision = 0;
  bool joint = false;  // 8 bits of symbol, 12 of frequency - 1, 12 of number; otherwise 9 of symbol, 14 of number
  std::span<std::uint32_t> slots;
  std::span<const std::uint32_t> frequencies;
};
// REQUIRES 2^precision slots, and as many frequencies as symbols.
RansSlots rans_slots(std::span<const std::uint32_t> frequencies, unsigned precision, std::span<std::uint32_t> slots);

// Takes symbols out of the states, and from `words` what these want. Returns the bytes of `words` that were read; more
// than there are when they do not suffice, and the symbols are then void.
std::size_t rans_decode(const RansSlots& table, std::span<std::uint32_t> states, std::span<const std::byte> words,
                        std::span<std::uint16_t> symbols);

}  // namespace sotto::kernels
