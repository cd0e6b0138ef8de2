#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// Range asymmetric numeral systems (Duda, 2013) with several interleaved 32-bit states. An encoder moves 16-bit words
// out of a state, and a decoder moves them back, so that states never fall below 2^16. Symbol i of a stream belongs to
// state i mod the number of states, which is a power of two.
namespace sotto::kernels {

inline constexpr std::uint32_t rans_lowest = 1U << 16;  // the least state, where encoding begins and decoding ends
inline constexpr std::size_t rans_most_lanes = 32;      // this many states are kept in SIMD registers
inline constexpr unsigned rans_most_precision = 14;
inline constexpr std::size_t rans_most_symbols = 512;

// Writes frequency << 16 | start for each symbol: it has the slots [start, start + frequency) of 2^precision.
void rans_ranges(std::span<const std::uint32_t> frequencies, std::span<std::uint32_t> ranges);

// Encodes symbols, the last one first; they begin in the stream at a multiple of the number of states. Writes the words
// before `end`, in the order in which a decoder reads them, and returns where they begin. REQUIRES room for two bytes
// per symbol and 16 bytes more, frequencies that add up to 2^precision, and a positive frequency of each symbol that
// occurs.
std::byte* rans_encode(std::span<const std::uint16_t> symbols, std::span<const std::uint32_t> ranges,
                       unsigned precision, std::span<std::uint32_t> states, std::byte* end);

// The decoder's table: for each slot its symbol and its number among the slots of that symbol. `joint` tables also hold
// the frequency of the symbol.
struct RansSlots {
  unsigned precision = 0;
  bool joint = false;  // 8 bits of symbol, 12 of frequency - 1, 12 of number; otherwise 9 of symbol, 14 of number
  std::span<std::uint32_t> slots;
  std::span<const std::uint32_t> frequencies;
};
// REQUIRES 2^precision slots, and as many frequencies as symbols.
RansSlots rans_slots(std::span<const std::uint32_t> frequencies, unsigned precision, std::span<std::uint32_t> slots);

// Decodes symbols from the states, which are refilled from `words`. Returns the number of bytes read from `words`. If
// there are too few, the number is larger than words.size() and the symbols are invalid.
std::size_t rans_decode(const RansSlots& table, std::span<std::uint32_t> states, std::span<const std::byte> words,
                        std::span<std::uint16_t> symbols);

}  // namespace sotto::kernels

// Encoding and decoding of one symbol: the reference that the SIMD code is tested against.
namespace sotto::kernels::rans_step {

inline void put(std::uint32_t range, unsigned precision, std::uint32_t& state, std::byte*& end) {
  const std::uint32_t frequency = range >> 16;
  if (state >= std::uint64_t{frequency} << (32 - precision)) {  // it would overflow
    const auto word = static_cast<std::uint16_t>(state);
    end -= sizeof(word);
    std::memcpy(end, &word, sizeof(word));
    state >>= 16;
  }
  state = (state / frequency << precision) + state % frequency + (range & 0xFFFFU);
}

struct Entry {
  std::uint32_t symbol, frequency, number;
};

template <bool joint>
inline Entry look_up(const RansSlots& table, std::uint32_t slot) {
  const std::uint32_t entry = table.slots[slot];
  if constexpr (joint) return {entry >> 24, (entry >> 12 & 0xFFFU) + 1, entry & 0xFFFU};
  return {entry >> 14, table.frequencies[entry >> 14], entry & 0x3FFFU};
}

// Decodes a symbol; returns whether the state needs a word.
template <bool joint>
inline bool take(const RansSlots& table, std::uint32_t& state, std::uint16_t& symbol) {
  const Entry entry = look_up<joint>(table, state & ((1U << table.precision) - 1));
  state = entry.frequency * (state >> table.precision) + entry.number;
  symbol = static_cast<std::uint16_t>(entry.symbol);
  return state < rans_lowest;
}

}  // namespace sotto::kernels::rans_step
