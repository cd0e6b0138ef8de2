#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"
#include "sotto/kernels/bits.h"

namespace sotto {

// Packed symbols of a unit, processed in blocks that fit in the cache.
struct PackedSymbols {
  static constexpr std::size_t block = 2048;
  unsigned width = 1;

  // Values per task; their symbols fill whole bytes.
  static std::size_t task(const ThreadPool& pool) { return std::max<std::size_t>(pool.grain() / 8, 1) * 8; }

  // Calls write(from, symbols) to fill in the symbols of the values from `from` on. REQUIRES begin a multiple of 8.
  template <class Write>
  void pack(std::size_t begin, std::size_t end, std::span<std::byte> packed, Write write) const {
    std::array<std::uint16_t, block> room;
    for (; begin < end; begin += block) {
      const auto symbols = std::span(room).first(std::min(block, end - begin));
      write(begin, symbols);
      kernels::pack_bits(symbols, width,
                         packed.subspan(begin / 8 * width, kernels::packed_bytes(symbols.size(), width)));
    }
  }
  // Calls read(from, symbols) with the symbols of the values from `from` on. REQUIRES begin a multiple of 8.
  template <class Read>
  void unpack(std::size_t begin, std::size_t end, std::span<const std::byte> packed, Read read) const {
    std::array<std::uint16_t, block> room;
    for (; begin < end; begin += block) {
      const auto symbols = std::span(room).first(std::min(block, end - begin));
      kernels::unpack_bits(packed.subspan(begin / 8 * width, kernels::packed_bytes(symbols.size(), width)), width,
                           symbols);
      read(begin, symbols);
    }
  }
};

}  // namespace sotto
