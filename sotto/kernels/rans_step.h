#pragma once

#include <cstring>

#include "sotto/kernels/rans.h"

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
